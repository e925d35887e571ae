/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files of a backup, durable when they are written.
 */
#include "iolane_files.h"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace iolane {

/* Of definitions, the longest has some kilobytes. */
static const size_t READ_BYTES = 64 << 10;

/* As the server makes its own. */
static const mode_t FILE_MODE = 0660, DIRECTORY_MODE = 0700;

/* A descriptor that is closed. */
class Descriptor {
public:
	Descriptor(const std::string &path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, FILE_MODE)) {}
	~Descriptor()
	{
		if (fd_ >= 0)
			close(fd_);
	}
	Descriptor(const Descriptor &) = delete;
	Descriptor &operator=(const Descriptor &) = delete;

	int get() const { return fd_; }

private:
	int fd_;
};

int read_file(const std::string &path, std::string *text)
{
	Descriptor file(path, O_RDONLY);
	std::vector<char> buffer(READ_BYTES);
	ssize_t length;

	if (file.get() < 0)
		return errno;
	text->clear();
	while ((length = read(file.get(), buffer.data(), buffer.size())) > 0)
		text->append(buffer.data(), (size_t) length);
	return length < 0 ? errno : 0;
}

int write_file(const std::string &path, const std::string &text)
{
	Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL);
	size_t written = 0;

	if (file.get() < 0)
		return errno;
	while (written < text.size()) {
		ssize_t length = write(file.get(), text.data() + written, text.size() - written);

		if (length < 0)
			return errno;
		written += (size_t) length;
	}
	return fsync(file.get()) ? errno : 0;
}

int copy_file(const std::string &from, const std::string &to, bool *found)
{
	std::string text;
	int error = read_file(from, &text);

	*found = error != ENOENT;
	if (error)
		return error == ENOENT ? 0 : error;
	return write_file(to, text);
}

int make_directory(const std::string &path)
{
	return mkdir(path.c_str(), DIRECTORY_MODE) ? errno : 0;
}

int sync_directory(const std::string &path)
{
	Descriptor directory(path, O_RDONLY | O_DIRECTORY);

	return directory.get() < 0 || fsync(directory.get()) ? errno : 0;
}

int list_directory(const std::string &path, std::vector<std::string> *names)
{
	DIR *directory = opendir(path.c_str());

	if (!directory)
		return errno;
	names->clear();
	errno = 0;
	while (const struct dirent *entry = readdir(directory)) {
		std::string name = entry->d_name;

		if (name != "." && name != "..")
			names->push_back(name);
		errno = 0;
	}
	int error = errno;

	closedir(directory);
	return error;
}

void remove_directory(const std::string &path)
{
	std::error_code ignored;

	std::filesystem::remove_all(path, ignored);
}

} /* namespace iolane */
