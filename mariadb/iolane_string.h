/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Strings as bytes that compare as their collation does.
 */
#ifndef IOLANE_STRING_H
#define IOLANE_STRING_H

#include "iolane_engine.h"

namespace iolane {

/* Appends the first `bytes_max` bytes of a string, or as many characters as fit there. */
void append_string(CHARSET_INFO *cs, const uchar *bytes, size_t length, size_t bytes_max,
		   std::string *out);

/* The same for CHAR, which the server compares without the spaces at its end. */
void append_char(CHARSET_INFO *cs, const uchar *bytes, size_t length, size_t bytes_max,
		 std::string *out);

/* How many bytes such a string takes, all of its bits inverted or none; 0 if it does not end there. */
size_t string_bytes(CHARSET_INFO *cs, const uchar *bytes, size_t length, bool inverted);

/* Makes the least characters of a collation at the end of a CHAR spaces. */
void cut_least(CHARSET_INFO *cs, uchar *bytes, size_t length);

/* What a string of so many bytes takes at the most, but for rare characters. */
size_t string_bytes_max(CHARSET_INFO *cs, size_t bytes_max);

} /* namespace iolane */

#endif
