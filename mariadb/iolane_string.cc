/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Strings as bytes that compare as their collation does.
 *
 *   binary strings			their bytes, escaped, and an end
 *   strings, no padding		their weights, escaped, and an end
 *   strings, padded with spaces	their weights in chunks, each with a mark that says
 *					how the rest compares with spaces
 *
 * A collation of several levels compares the weights of one after those of the other;
 * below the first one the server pads always.
 */
#include "iolane_string.h"
#include "iolane_key.h"

#include <algorithm>
#include <vector>

namespace iolane {

/* Marks behind a chunk: what follows is less than spaces, spaces only, or more. */
enum { REST_LESS = 1, REST_EQUAL = 2, REST_MORE = 3 };

/* Chunks have at least so many bytes; a mark for each is little beside that. */
static const size_t CHUNK_BYTES_MIN = 8;

/* The weights of a space have no more. */
static const size_t SPACE_BYTES_MAX = 64;

/* Characters that have more weights than strnxfrmlen() says are rare: room for a few. */
static const size_t EXPANSION_BYTES = 64;

/* As many weights as there are. */
static const uint ALL_WEIGHTS = INT_MAX32;

/* Weights of characters of two bytes, where they are taken from the code; see code_weights(). */
static const size_t CODE_WEIGHT_BYTES = 2;

static void append_escaped(const uchar *bytes, size_t length, std::string *out)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] <= KEY_STRING_ESCAPE) {
			out->push_back((char) KEY_STRING_ESCAPE);
			out->push_back((char) (bytes[i] + 1));
		} else {
			out->push_back((char) bytes[i]);
		}
	}
	out->push_back((char) KEY_STRING_END);
}

/* How what is left of weights compares with spaces. */
static uchar compare_with_spaces(const uchar *from, const uchar *end, const uchar *space,
				 size_t width)
{
	for (; from + width <= end; from += width) {
		int order = memcmp(from, space, width);

		if (order)
			return order < 0 ? REST_LESS : REST_MORE;
	}
	if (from < end) {
		int order = memcmp(from, space, (size_t) (end - from));

		/* Weights that end within one of a space are padded by its rest. */
		if (order)
			return order < 0 ? REST_LESS : REST_MORE;
	}
	return REST_EQUAL;
}

static size_t chunk_bytes(size_t width)
{
	return (CHUNK_BYTES_MIN + width - 1) / width * width;
}

static void append_padded(const uchar *weights, size_t length, const uchar *space, size_t width,
			  std::string *out)
{
	size_t chunk = chunk_bytes(width);
	const uchar *from = weights, *end = weights + length;

	for (;;) {
		size_t here = std::min(chunk, (size_t) (end - from));

		out->append((const char *) from, here);
		for (size_t i = here; i < chunk; i++)
			out->push_back((char) space[i % width]);
		from += here;

		uchar rest = compare_with_spaces(from, end, space, width);

		out->push_back((char) rest);
		if (rest == REST_EQUAL)
			return;
	}
}

/* The weights of a string; all of them, however many a character has. */
class Weights {
public:
	Weights(CHARSET_INFO *cs, const uchar *bytes, size_t length, uint flags)
	{
		size_t room = cs->strnxfrmlen(length) + EXPANSION_BYTES;

		for (;;) {
			if (room > sizeof(few_)) {
				many_.resize(room);
				at_ = many_.data();
			}
			length_ = cs->strnxfrm(at_, std::max(room, sizeof(few_)), ALL_WEIGHTS, bytes,
					       length, flags);
			if (length_ < std::max(room, sizeof(few_)))
				return;
			room = 2 * std::max(room, sizeof(few_));
		}
	}

	Weights(const Weights &) = delete;
	Weights &operator=(const Weights &) = delete;

	const uchar *at() const { return at_; }
	size_t length() const { return length_; }

private:
	uchar few_[512];
	std::vector<uchar> many_;
	uchar *at_ = few_;
	size_t length_;
};

/* Bytes of the weights of a space, which are put there. */
static size_t weigh_space(CHARSET_INFO *cs, uint flags, uchar (&space)[SPACE_BYTES_MAX])
{
	uchar blank[8];
	size_t length = (size_t) cs->wc_mb(' ', blank, blank + sizeof(blank));

	return cs->strnxfrm(space, sizeof(space), 1, blank, length, flags);
}

static void append_level(CHARSET_INFO *cs, const uchar *bytes, size_t length, uint flags,
			 bool is_padded, std::string *out)
{
	Weights weights(cs, bytes, length, flags);
	uchar space[SPACE_BYTES_MAX];

	if (is_padded) {
		size_t width = weigh_space(cs, flags, space);

		if (width) {
			append_padded(weights.at(), weights.length(), space, width, out);
			return;
		}
	}
	append_escaped(weights.at(), weights.length(), out);
}

/* Where the weights of the server are by strokes, by which it sorts, and does not compare. */
static bool is_compared_by_code(CHARSET_INFO *cs)
{
	return !strncmp(cs->coll_name.str, "big5_chinese_", strlen("big5_chinese_"));
}

/* As strcoll.inl of the server compares: a character of two bytes by its code. */
static std::vector<uchar> code_weights(CHARSET_INFO *cs, const uchar *bytes, size_t length)
{
	std::vector<uchar> weights;
	const uchar *end = bytes + length;

	weights.reserve(CODE_WEIGHT_BYTES * length);
	while (bytes < end) {
		if (my_ismbchar(cs, (const char *) bytes, (const char *) end)) {
			weights.insert(weights.end(), bytes, bytes + CODE_WEIGHT_BYTES);
			bytes += CODE_WEIGHT_BYTES;
		} else {
			/* What is no character comes behind all. */
			weights.push_back(*bytes < 0x80 ? 0 : 0xFF);
			weights.push_back(*bytes < 0x80 ? cs->sort_order[*bytes] : *bytes);
			bytes++;
		}
	}
	return weights;
}

static void append_codes(CHARSET_INFO *cs, const uchar *bytes, size_t length, std::string *out)
{
	static const uchar SPACE[CODE_WEIGHT_BYTES] = { 0, ' ' };
	std::vector<uchar> weights = code_weights(cs, bytes, length);

	if (cs->state & MY_CS_NOPAD)
		append_escaped(weights.data(), weights.size(), out);
	else
		append_padded(weights.data(), weights.size(), SPACE, sizeof(SPACE), out);
}

/* Thai weights are in another order than their characters, spaces among them. */
static bool has_spaces_in_order(CHARSET_INFO *cs)
{
	return strncmp(cs->cs_name.str, "tis620", strlen("tis620")) != 0;
}

static bool is_padded(CHARSET_INFO *cs)
{
	return !(cs->state & MY_CS_NOPAD);
}

static void append_weights(CHARSET_INFO *cs, const uchar *bytes, size_t length, std::string *out)
{
	/* Collations that go over a string several times compare all of that without its end. */
	if (cs->state & MY_CS_STRNXFRM_BAD_NWEIGHTS) {
		length = cs->lengthsp((const char *) bytes, length);
		append_level(cs, bytes, length, 0, false, out);
		return;
	}
	if (is_compared_by_code(cs)) {
		append_codes(cs, bytes, length, out);
		return;
	}
	if (is_padded(cs) && has_spaces_in_order(cs))
		length = cs->lengthsp((const char *) bytes, length);
	if (cs->levels_for_order <= 1) {
		append_level(cs, bytes, length, 0, is_padded(cs), out);
		return;
	}
	for (uint level = 0; cs->levels_for_order >> level; level++)
		if (cs->levels_for_order >> level & 1)
			append_level(cs, bytes, length, MY_STRXFRM_LEVEL1 << level,
				     is_padded(cs) || level, out);
}

/* What append_escaped() and append_padded() have written, up to its end. */
class Written {
public:
	Written(const uchar *bytes, size_t length, bool inverted)
		: bytes_(bytes), length_(length), mask_(inverted ? 0xFF : 0) {}

	bool pass_escaped()
	{
		while (at_ < length_) {
			uchar byte = next();

			if (byte == KEY_STRING_END)
				return true;
			if (byte == KEY_STRING_ESCAPE)
				at_++;
		}
		return false;
	}

	bool pass_padded(size_t width)
	{
		size_t chunk = chunk_bytes(width);

		while (length_ - at_ > chunk) {
			at_ += chunk;
			if (next() == REST_EQUAL)
				return true;
		}
		return false;
	}

	bool pass_level(CHARSET_INFO *cs, uint flags, bool is_padded)
	{
		uchar space[SPACE_BYTES_MAX];
		size_t width = is_padded ? weigh_space(cs, flags, space) : 0;

		return width ? pass_padded(width) : pass_escaped();
	}

	size_t passed() const { return at_; }

private:
	uchar next() { return bytes_[at_++] ^ mask_; }

	const uchar *bytes_;
	size_t length_, at_ = 0;
	uchar mask_;
};

/* As append_weights() goes. */
static bool pass_weights(CHARSET_INFO *cs, Written *from)
{
	if (cs == &my_charset_bin || (cs->state & MY_CS_STRNXFRM_BAD_NWEIGHTS))
		return from->pass_escaped();
	if (is_compared_by_code(cs))
		return is_padded(cs) ? from->pass_padded(CODE_WEIGHT_BYTES) : from->pass_escaped();
	if (cs->levels_for_order <= 1)
		return from->pass_level(cs, 0, is_padded(cs));
	for (uint level = 0; cs->levels_for_order >> level; level++)
		if ((cs->levels_for_order >> level & 1) &&
		    !from->pass_level(cs, MY_STRXFRM_LEVEL1 << level, is_padded(cs) || level))
			return false;
	return true;
}

size_t string_bytes(CHARSET_INFO *cs, const uchar *bytes, size_t length, bool inverted)
{
	Written from(bytes, length, inverted);

	return pass_weights(cs, &from) ? from.passed() : 0;
}

static size_t cut(CHARSET_INFO *cs, const uchar *bytes, size_t length, size_t bytes_max)
{
	size_t chars_max = bytes_max / cs->mbmaxlen;

	length = std::min(length, bytes_max);
	return length > chars_max ? std::min(length, cs->charpos(bytes, bytes + length, chars_max)) : length;
}

void append_string(CHARSET_INFO *cs, const uchar *bytes, size_t length, size_t bytes_max,
		   std::string *out)
{
	if (cs == &my_charset_bin)
		append_escaped(bytes, std::min(length, bytes_max), out);
	else
		append_weights(cs, bytes, cut(cs, bytes, length, bytes_max), out);
}

void append_char(CHARSET_INFO *cs, const uchar *bytes, size_t length, size_t bytes_max,
		 std::string *out)
{
	if (cs == &my_charset_bin) {
		append_escaped(bytes, std::min(length, bytes_max), out);
		return;
	}
	length = cut(cs, bytes, length, bytes_max);
	append_weights(cs, bytes, cs->lengthsp((const char *) bytes, length), out);
}

void cut_least(CHARSET_INFO *cs, uchar *bytes, size_t length)
{
	uchar least[8];
	size_t width = (size_t) std::max(cs->wc_mb(cs->min_sort_char, least, least + sizeof(least)), 1);
	size_t left = length;

	while (left >= width && !memcmp(bytes + left - width, least, width))
		left -= width;
	cs->fill((char *) bytes + left, length - left, ' ');
}

size_t string_bytes_max(CHARSET_INFO *cs, size_t bytes_max)
{
	if (cs == &my_charset_bin)
		return 2 * bytes_max + 1;

	size_t weights = std::max(cs->strnxfrmlen(bytes_max), CODE_WEIGHT_BYTES * bytes_max) + EXPANSION_BYTES;
	size_t levels = cs->state & MY_CS_STRNXFRM_BAD_NWEIGHTS ? 1 : my_count_bits(cs->levels_for_order | 1);

	bool is_escaped = !is_padded(cs) || (cs->state & MY_CS_STRNXFRM_BAD_NWEIGHTS);

	/* Each byte may be escaped; or each chunk has a mark, and each level a chunk that is not full. */
	return (is_escaped ? 2 * weights : weights + weights / CHUNK_BYTES_MIN) + levels * (2 * CHUNK_BYTES_MIN + 2);
}

} /* namespace iolane */
