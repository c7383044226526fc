-- ClickHouse functions in DuckDB's SQL: one macro each, and after the semicolon the ClickHouse type
-- of its result. There $1 is the type of the first argument, item($1) that of its array's items.
-- The printer expands them: a definition with a type costs a query process nothing. Those without one are
-- helpers that are created as macros. Names that end in _ are bound by lambda and numbered when nested.
-- What cannot be exact ends in error('not answered here: ...'), never in another value.

-- helpers of the macros below
CREATE MACRO scaled(x, base, names) AS list_transform([len(list_filter(list_transform(range(1, len(names)),
  lambda n_: pow(base, n_)), lambda p_: abs(x) >= p_))],
  lambda n_: printf('%.2f', x::DOUBLE / pow(base, n_)) || ' ' || names[n_ + 1])[1];
CREATE MACRO bucket(t, n) AS make_timestamp(epoch_us(t::TIMESTAMP) // (n::BIGINT * 1000000) * (n::BIGINT * 1000000))::TIMESTAMP_S;
CREATE MACRO tryTime(x) AS coalesce(timezone('UTC', TRY_CAST(x AS TIMESTAMPTZ)), TRY_CAST(try_strptime(x, ['%d %b %Y %H:%M:%S', '%d %B %Y %H:%M:%S',
  '%d %b %Y', '%d/%m/%Y %H:%M:%S', '%d/%m/%Y', '%d.%m.%Y', '%Y%m%d%H%M%S', '%Y%m%d', '%b %d %Y %H:%M:%S',
  '%a, %d %b %Y %H:%M:%S GMT', '%Y/%m/%d %H:%M:%S', '%Y/%m/%d']) AS TIMESTAMP),
  CASE WHEN regexp_full_match(x, '\d{9,10}') THEN make_timestamp(TRY_CAST(x AS BIGINT) * 1000000) END);
CREATE MACRO bestTime(x) AS coalesce(tryTime(x), x::TIMESTAMP);

CREATE MACRO pairsOf(k, v) AS list_transform(range(1, len(k) + 1), lambda i_: {'key': k[i_], 'value': v[i_]});
CREATE MACRO folded(entries, how) AS list_transform(list_sort(list_distinct(list_transform(entries, lambda x_: x_.key))),
  lambda k_: {'key': k_, 'value': list_aggregate(list_transform(list_filter(entries, lambda y_: y_.key = k_),
  lambda z_: z_.value), how)});

-- by the type of the first argument
CREATE MACRO length(x) AS strlen(x)::UBIGINT; -- UInt64 of String
CREATE MACRO length(x) AS octet_length(x)::UBIGINT; -- UInt64 of FixedString
CREATE MACRO length(x) AS cardinality(x)::UBIGINT; -- UInt64 of Map
CREATE MACRO length(x) AS len(x)::UBIGINT; -- UInt64
CREATE MACRO reverse(x) AS reverse(inAscii(x, 'reverse')); -- $1 of String
CREATE MACRO reverse(x) AS list_reverse(x); -- $1

-- mathematics
CREATE MACRO log(x) AS CASE WHEN x > 0 THEN ln(x::DOUBLE) WHEN x = 0 THEN '-inf'::DOUBLE
  WHEN x < 0 THEN 'nan'::DOUBLE END; -- Float64
CREATE MACRO ln(x) AS CASE WHEN x > 0 THEN ln(x::DOUBLE) WHEN x = 0 THEN '-inf'::DOUBLE
  WHEN x < 0 THEN 'nan'::DOUBLE END; -- Float64
CREATE MACRO log2(x) AS CASE WHEN x > 0 THEN log2(x::DOUBLE)
  WHEN x = 0 THEN '-inf'::DOUBLE WHEN x < 0 THEN 'nan'::DOUBLE END; -- Float64
CREATE MACRO log10(x) AS CASE WHEN x > 0 THEN log10(x::DOUBLE)
  WHEN x = 0 THEN '-inf'::DOUBLE WHEN x < 0 THEN 'nan'::DOUBLE END; -- Float64
CREATE MACRO log1p(x) AS CASE WHEN x > -1 THEN ln(1 + x::DOUBLE)
  WHEN x = -1 THEN '-inf'::DOUBLE WHEN x < -1 THEN 'nan'::DOUBLE END; -- Float64
CREATE MACRO exp(x) AS exp(x::DOUBLE); -- Float64
CREATE MACRO exp2(x) AS pow(2::DOUBLE, x::DOUBLE); -- Float64
CREATE MACRO exp10(x) AS pow(10::DOUBLE, x::DOUBLE); -- Float64
CREATE MACRO sqrt(x) AS CASE WHEN x < 0 THEN 'nan'::DOUBLE ELSE sqrt(x::DOUBLE) END; -- Float64
CREATE MACRO cbrt(x) AS CASE WHEN x = 0 THEN 0::DOUBLE
  ELSE cbrt(x::DOUBLE) - (pow(cbrt(x::DOUBLE), 3) - x) / (3 * pow(cbrt(x::DOUBLE), 2)) END; -- Float64
CREATE MACRO power(x, y) AS pow(x::DOUBLE, y::DOUBLE); -- Float64
CREATE MACRO asin(x) AS CASE WHEN x > 1 OR x < -1 THEN 'nan'::DOUBLE
  ELSE asin(x::DOUBLE) END; -- Float64
CREATE MACRO acos(x) AS CASE WHEN x > 1 OR x < -1 THEN 'nan'::DOUBLE
  ELSE acos(x::DOUBLE) END; -- Float64
CREATE MACRO e() AS exp(1::DOUBLE); -- Float64
CREATE MACRO hypot(x, y) AS sqrt(x::DOUBLE * x::DOUBLE + y::DOUBLE * y::DOUBLE); -- Float64
CREATE MACRO tgamma(x) AS gamma(x::DOUBLE); -- Float64
CREATE MACRO max2(x, y) AS greatest(x::DOUBLE, y::DOUBLE); -- Float64
CREATE MACRO min2(x, y) AS least(x::DOUBLE, y::DOUBLE); -- Float64
CREATE MACRO sign(x) AS sign(x)::TINYINT; -- Int8
CREATE MACRO factorial(x) AS factorial(x::INTEGER)::UBIGINT; -- UInt64
CREATE MACRO isFinite(x) AS isfinite(x::DOUBLE); -- flag
CREATE MACRO isInfinite(x) AS isinf(x::DOUBLE); -- flag
CREATE MACRO isNaN(x) AS isnan(x::DOUBLE); -- flag
CREATE MACRO ifNotFinite(x, other) AS CASE WHEN isfinite(x::DOUBLE) THEN x::DOUBLE
  ELSE other::DOUBLE END; -- Float64
CREATE MACRO roundBankers(x) AS round_even(x::DOUBLE, 0),
  (x, n) AS round_even(x::DOUBLE * pow(10, n), 0) / pow(10, n); -- Float64
CREATE MACRO roundAge(x) AS (CASE WHEN x < 1 THEN 0 WHEN x < 18 THEN 17 WHEN x < 25 THEN 18
  WHEN x < 35 THEN 25 WHEN x < 45 THEN 35 WHEN x < 55 THEN 45 ELSE 55 END)::UTINYINT; -- UInt8
CREATE MACRO roundDuration(x) AS coalesce(list_last(list_filter([1, 10, 30, 60, 120, 180, 240, 300,
  600, 1200, 1800, 3600, 7200, 18000, 36000], lambda v_: v_ <= x)), 0)::USMALLINT; -- UInt16
CREATE MACRO roundDown(x, steps) AS list_max(list_filter(steps, lambda v_: v_ <= greatest(x,
  list_min(steps)))); -- item($2)
CREATE MACRO width_bucket(x, low, high, n) AS (CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1
  ELSE floor((x - low)::DOUBLE / (high - low)::DOUBLE * n) + 1 END)::USMALLINT; -- UInt16

-- bits
CREATE MACRO bitTest(x, n) AS ((x >> n) & 1)::UTINYINT; -- UInt8
CREATE MACRO bitTestAll(x, a) AS ((x >> a) & 1)::UTINYINT,
  (x, a, b) AS ((x >> a) & (x >> b) & 1)::UTINYINT,
  (x, a, b, c) AS ((x >> a) & (x >> b) & (x >> c) & 1)::UTINYINT; -- UInt8
CREATE MACRO bitTestAny(x, a) AS ((x >> a) & 1)::UTINYINT,
  (x, a, b) AS (((x >> a) | (x >> b)) & 1)::UTINYINT,
  (x, a, b, c) AS (((x >> a) | (x >> b) | (x >> c)) & 1)::UTINYINT; -- UInt8
CREATE MACRO bitCount(x) AS bit_count(x)::UTINYINT; -- UInt8
CREATE MACRO bitHammingDistance(x, y) AS bit_count(xor(x, y))::UTINYINT; -- UInt8
CREATE MACRO bitmaskToArray(x) AS list_filter(list_transform(range(64),
  lambda n_: (1::UBIGINT << n_::UBIGINT)), lambda v_: (x::UBIGINT & v_) > 0); -- Array(UInt64)
CREATE MACRO bitmaskToList(x) AS array_to_string(list_filter(list_transform(range(64),
  lambda n_: (1::UBIGINT << n_::UBIGINT)), lambda v_: (x::UBIGINT & v_) > 0), ','); -- String
CREATE MACRO bitPositionsToArray(x) AS list_transform(list_filter(range(64),
  lambda n_: (x::UBIGINT >> n_::UBIGINT) & 1 = 1), lambda n_: n_::UBIGINT); -- Array(UInt64)

-- conversions
CREATE MACRO toBool(x) AS x::BOOLEAN; -- Bool
CREATE MACRO toUUID(x) AS x::UUID; -- UUID
CREATE MACRO toUUIDOrNull(x) AS TRY_CAST(x AS UUID); -- Nullable(UUID)
CREATE MACRO toUUIDOrZero(x) AS coalesce(TRY_CAST(x AS UUID),
  '00000000-0000-0000-0000-000000000000'::UUID); -- UUID

-- texts: lengths and positions count bytes, as in ClickHouse, unless the name ends in UTF8
CREATE MACRO inAscii(x, name) AS CASE WHEN strlen(x) = length(x) THEN x ELSE
  error('not answered here: ' || name || ' of a text that is not ASCII; take ' || name || 'UTF8') END;
CREATE MACRO empty(x) AS (len(x) = 0); -- flag
CREATE MACRO notEmpty(x) AS (len(x) > 0); -- flag
CREATE MACRO lengthUTF8(x) AS length(x)::UBIGINT; -- UInt64
CREATE MACRO char_length(x) AS length(x)::UBIGINT; -- UInt64
CREATE MACRO character_length(x) AS length(x)::UBIGINT; -- UInt64
CREATE MACRO octet_length(x) AS strlen(x)::UBIGINT; -- UInt64
CREATE MACRO lower(x) AS translate(x, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'); -- String
CREATE MACRO upper(x) AS translate(x, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'); -- String
CREATE MACRO lcase(x) AS translate(x, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'); -- String
CREATE MACRO ucase(x) AS translate(x, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'); -- String
CREATE MACRO lowerUTF8(x) AS lower(x); -- String
CREATE MACRO upperUTF8(x) AS upper(x); -- String
CREATE MACRO initcap(x) AS array_to_string(list_transform(regexp_extract_all(
  inAscii(x, 'initcap'), '[A-Za-z0-9]+|[^A-Za-z0-9]+'),
  lambda w_: upper(w_[1]) || lower(w_[2:])), ''); -- String
CREATE MACRO reverseUTF8(x) AS reverse(x); -- String
CREATE MACRO substringUTF8(x, start) AS CASE WHEN start = 0 THEN '' ELSE substring(x, start::BIGINT) END,
  (x, start, n) AS CASE WHEN start = 0 THEN '' ELSE substring(x, start::BIGINT, n::BIGINT) END; -- String
CREATE MACRO substring(x, start) AS CASE WHEN start = 0 THEN ''
    ELSE substring(inAscii(x, 'substring'), start::BIGINT) END,
  (x, start, n) AS CASE WHEN start = 0 THEN '' WHEN n < 0 THEN
    error('not answered here: substring with a length below 0')
    ELSE substring(inAscii(x, 'substring'), start::BIGINT, n::BIGINT) END; -- String
CREATE MACRO left(x, n) AS left(inAscii(x, 'left'), n::BIGINT); -- String
CREATE MACRO right(x, n) AS right(inAscii(x, 'right'), n::BIGINT); -- String
CREATE MACRO leftUTF8(x, n) AS left(x, n::BIGINT); -- String
CREATE MACRO rightUTF8(x, n) AS right(x, n::BIGINT); -- String
CREATE MACRO substringIndex(x, sep, n) AS CASE WHEN n > 0
  THEN array_to_string(string_split(x, sep)[:n], sep)
  WHEN n < 0 THEN array_to_string(string_split(x, sep)[n:], sep) ELSE '' END; -- String
CREATE MACRO startsWith(x, part) AS starts_with(x, part); -- flag
CREATE MACRO endsWith(x, part) AS ends_with(x, part); -- flag
CREATE MACRO startsWithUTF8(x, part) AS starts_with(x, part); -- flag
CREATE MACRO endsWithUTF8(x, part) AS ends_with(x, part); -- flag
CREATE MACRO positionUTF8(x, part) AS instr(x, part)::UBIGINT; -- UInt64
CREATE MACRO position(x, part) AS instr(inAscii(x, 'position'), part)::UBIGINT,
  (x, part, start) AS (CASE WHEN instr(substring(inAscii(x, 'position'), greatest(start, 1)), part) = 0
    THEN 0 ELSE instr(substring(x, greatest(start, 1)), part) + greatest(start, 1) - 1 END)::UBIGINT; -- UInt64
CREATE MACRO locate(part, x) AS instr(inAscii(x, 'locate'), part)::UBIGINT; -- UInt64
CREATE MACRO positionCaseInsensitive(x, part) AS
  instr(lower(inAscii(x, 'positionCaseInsensitive')), lower(part))::UBIGINT; -- UInt64
CREATE MACRO positionCaseInsensitiveUTF8(x, part) AS
  instr(lower(x), lower(part))::UBIGINT; -- UInt64
CREATE MACRO countSubstrings(x, part) AS
  ((strlen(x) - strlen(replace(x, part, ''))) // greatest(strlen(part), 1))::UBIGINT; -- UInt64
CREATE MACRO countSubstringsCaseInsensitive(x, part) AS ((strlen(x)
  - strlen(replace(lower(x), lower(part), ''))) // greatest(strlen(part), 1))::UBIGINT; -- UInt64
CREATE MACRO hasToken(x, token) AS list_contains(regexp_extract_all(x, '[A-Za-z0-9\x80-\xFF]+'), token); -- flag
CREATE MACRO hasSubsequence(x, part) AS regexp_matches(x, array_to_string(list_transform(
  string_split(part, ''), lambda c_: regexp_escape(c_)), '.*'), 's'); -- flag
CREATE MACRO multiSearchAny(x, parts) AS (len(list_filter(parts, lambda p_: instr(x, p_) > 0)) > 0); -- flag
CREATE MACRO multiSearchFirstIndex(x, parts) AS coalesce(list_position(list_transform(parts,
  lambda p_: instr(x, p_) > 0), true), 0)::UBIGINT; -- UInt64
CREATE MACRO multiSearchAllPositions(x, parts) AS list_transform(parts,
  lambda p_: instr(inAscii(x, 'multiSearchAllPositions'), p_)::UBIGINT); -- Array(UInt64)
CREATE MACRO multiSearchFirstPosition(x, parts) AS coalesce(list_min(list_filter(list_transform(parts,
  lambda p_: instr(inAscii(x, 'multiSearchFirstPosition'), p_)), lambda n_: n_ > 0)), 0)::UBIGINT; -- UInt64
CREATE MACRO multiMatchAny(x, patterns) AS (len(list_filter(patterns, lambda p_: regexp_matches(x, p_, 's'))) > 0); -- flag
CREATE MACRO repeat(x, n) AS repeat(x, n); -- String
CREATE MACRO replaceAll(x, part, other) AS replace(x, part, other); -- String
CREATE MACRO replaceOne(x, part, other) AS CASE WHEN part = '' OR instr(x, part) = 0 THEN x
  ELSE left(x, instr(x, part) - 1) || other
    || substring(x, instr(x, part) + length(part)) END; -- String
CREATE MACRO regexpQuoteMeta(x) AS regexp_replace(x, '([\\|()^$.\[?*+{:-])', '\\\1', 'g'); -- String
CREATE MACRO replaceRegexpAll(x, pattern, other) AS CASE WHEN pattern = '' THEN x
  ELSE regexp_replace(x, pattern, other, 'gs') END; -- String
CREATE MACRO replaceRegexpOne(x, pattern, other) AS regexp_replace(x, pattern, other, 's'); -- String
CREATE MACRO translateUTF8(x, a, b) AS translate(x, a, b); -- String
CREATE MACRO match(x, pattern) AS regexp_matches(x, pattern, 's'); -- flag
-- The printer adds the number of the group: 1, or 0 where the pattern has none.
CREATE MACRO extract(x, pattern, n) AS regexp_extract(x, pattern, n, 's'); -- String
CREATE MACRO extractAll(x, pattern, n) AS regexp_extract_all(x, pattern, n, 's'); -- Array(String)
CREATE MACRO countMatches(x, pattern) AS len(regexp_extract_all(x, pattern, 0, 's'))::UBIGINT; -- UInt64
CREATE MACRO splitByString(sep, x) AS string_split(x, sep); -- Array(String)
CREATE MACRO splitByChar(sep, x) AS string_split(x, sep); -- Array(String)
CREATE MACRO splitByRegexp(pattern, x) AS CASE WHEN pattern = '' THEN string_split(x, '')
  ELSE regexp_split_to_array(x, pattern, 's') END; -- Array(String)
CREATE MACRO splitByWhitespace(x) AS regexp_extract_all(x, '[^ \t\n\r\f\v]+'); -- Array(String)
CREATE MACRO splitByNonAlpha(x) AS regexp_extract_all(x, '[^[:punct:][:space:]]+'); -- Array(String)
CREATE MACRO alphaTokens(x) AS regexp_extract_all(x, '[A-Za-z]+'); -- Array(String)
CREATE MACRO tokens(x) AS regexp_extract_all(x, '[A-Za-z0-9\x80-\x{10FFFF}]+'); -- Array(String)
CREATE MACRO gramsOf(x, n) AS list_transform(range(1, greatest(length(x) - n + 2, 1)),
  lambda i_: substring(x, i_, n));
CREATE MACRO ngrams(x, n) AS gramsOf(x, n); -- Array(String)
CREATE MACRO trimLeft(x) AS ltrim(x), (x, chars) AS ltrim(x, chars); -- String
CREATE MACRO trimRight(x) AS rtrim(x), (x, chars) AS rtrim(x, chars); -- String
CREATE MACRO trimBoth(x) AS trim(x), (x, chars) AS trim(x, chars); -- String
CREATE MACRO leftPadUTF8(x, n) AS lpad(x, n::INTEGER, ' '),
  (x, n, fill) AS lpad(x, n::INTEGER, fill); -- String
CREATE MACRO rightPadUTF8(x, n) AS rpad(x, n::INTEGER, ' '),
  (x, n, fill) AS rpad(x, n::INTEGER, fill); -- String
CREATE MACRO leftPad(x, n) AS lpad(inAscii(x, 'leftPad'), n::INTEGER, ' '),
  (x, n, fill) AS lpad(inAscii(x, 'leftPad'), n::INTEGER, fill); -- String
CREATE MACRO rightPad(x, n) AS rpad(inAscii(x, 'rightPad'), n::INTEGER, ' '),
  (x, n, fill) AS rpad(inAscii(x, 'rightPad'), n::INTEGER, fill); -- String
CREATE MACRO ascii(x) AS CASE WHEN ascii(x) < 128 THEN ascii(x)
  ELSE error('not answered here: ascii of a text that is not ASCII') END; -- Int32
CREATE MACRO space(n) AS repeat(' ', n::INTEGER); -- String
CREATE MACRO unhex(x) AS from_hex(CASE WHEN strlen(x) % 2 = 1 THEN '0' || x ELSE x END); -- String
-- base58_text and base58_bytes are functions of the query process.
CREATE MACRO base58Encode(x) AS base58_text(x); -- String
CREATE MACRO base58Decode(x) AS CASE WHEN x IS NOT NULL THEN coalesce(base58_bytes(x),
  error('Invalid base58Decode value, cannot be decoded')) END; -- String
CREATE MACRO tryBase58Decode(x) AS CASE WHEN x IS NOT NULL THEN coalesce(base58_bytes(x), ''::BLOB) END; -- String
CREATE MACRO tryBase64Decode(x) AS CASE WHEN x IS NOT NULL THEN coalesce(try(from_base64(x)), ''::BLOB) END; -- String
CREATE MACRO base64Encode(x) AS to_base64(encode(x)); -- String
CREATE MACRO base64Decode(x) AS from_base64(x); -- String
CREATE MACRO base64URLEncode(x) AS rtrim(translate(to_base64(encode(x)), '+/', '-_'), '='); -- String
CREATE MACRO MD5(x) AS from_hex(md5(x)); -- FixedString(16)
CREATE MACRO SHA1(x) AS from_hex(sha1(x)); -- FixedString(20)
CREATE MACRO SHA256(x) AS from_hex(sha256(x)); -- FixedString(32)
CREATE MACRO halfMD5(x) AS ('0x' || left(md5(x), 16))::UBIGINT; -- UInt64
CREATE MACRO javaHash(x) AS list_reduce(list_prepend(0::HUGEINT, list_transform(string_split(inAscii(x, 'javaHash'), ''),
  lambda c_: ord(c_)::HUGEINT)), lambda a_, c_: ((a_ * 31 + c_ + 2147483648::HUGEINT) % 4294967296::HUGEINT)
  - 2147483648::HUGEINT)::INTEGER; -- Int32
CREATE MACRO formatReadableSize(x) AS scaled(x, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']); -- String
CREATE MACRO formatReadableDecimalSize(x) AS scaled(x, 1000, ['B', 'KB', 'MB', 'GB', 'TB', 'PB', 'EB']); -- String
CREATE MACRO formatReadableQuantity(x) AS rtrim(scaled(x, 1000,
  ['', 'thousand', 'million', 'billion', 'trillion', 'quadrillion'])); -- String
CREATE MACRO encodeXMLComponent(x) AS replace(replace(replace(replace(
  replace(x, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&apos;'); -- String
CREATE MACRO decodeXMLComponent(x) AS replace(replace(replace(replace(
  replace(x, '&lt;', '<'), '&gt;', '>'), '&quot;', '"'), '&apos;', ''''), '&amp;', '&'); -- String
CREATE MACRO isValidUTF8(x) AS 1::UTINYINT; -- UInt8
CREATE MACRO toValidUTF8(x) AS x; -- String
CREATE MACRO levenshteinDistance(x, y) AS levenshtein(x, y)::UBIGINT; -- UInt64
CREATE MACRO editDistance(x, y) AS levenshtein(x, y)::UBIGINT; -- UInt64
CREATE MACRO damerauLevenshteinDistance(x, y) AS damerau_levenshtein(x, y)::UBIGINT; -- UInt64
CREATE MACRO jaroWinklerSimilarity(x, y) AS jaro_winkler_similarity(x, y); -- Float64
CREATE MACRO byteHammingDistance(x, y) AS hamming(x, y)::UBIGINT; -- UInt64
CREATE MACRO firstLine(x) AS regexp_extract(x, '^[^\r\n]*'); -- String
CREATE MACRO appendTrailingCharIfAbsent(x, c) AS CASE WHEN x = '' OR ends_with(x, c) THEN x ELSE x || c END; -- String

-- dates and times: DateTime is TIMESTAMP_S, DateTime64 TIMESTAMP_MS, TIMESTAMP or TIMESTAMP_NS
CREATE MACRO instant() AS timezone('UTC', current_timestamp);
-- A name of an enum, and a number that is none of it.
CREATE MACRO enumElement(t, names, enum_type) AS CASE WHEN t IS NULL OR list_contains(names, t) THEN t
  ELSE error('Unknown element ''' || t || ''' for enum ' || enum_type) END;
CREATE MACRO enumNumber(n, enum_type) AS error('Unexpected value ' || n || ' in enum ' || enum_type);
CREATE MACRO inZone(t, zone) AS timezone(zone, timezone('UTC', t::TIMESTAMP));
CREATE MACRO fromZone(t, zone) AS timezone('UTC', timezone(zone, t::TIMESTAMP));
CREATE MACRO now() AS date_trunc('second', instant())::TIMESTAMP_S; -- DateTime
CREATE MACRO now64() AS date_trunc('millisecond', instant())::TIMESTAMP_MS; -- DateTime64(3)
CREATE MACRO today() AS instant()::DATE; -- Date
CREATE MACRO yesterday() AS instant()::DATE - 1; -- Date
CREATE MACRO toStartOfMinute(t) AS date_trunc('minute', t::TIMESTAMP)::TIMESTAMP_S; -- DateTime
CREATE MACRO toStartOfHour(t) AS date_trunc('hour', t::TIMESTAMP)::TIMESTAMP_S; -- DateTime
CREATE MACRO toStartOfDay(t) AS date_trunc('day', t::TIMESTAMP)::TIMESTAMP_S; -- DateTime
CREATE MACRO toStartOfFiveMinute(t) AS bucket(t, 300); -- DateTime
CREATE MACRO toStartOfFiveMinutes(t) AS bucket(t, 300); -- DateTime
CREATE MACRO toStartOfTenMinutes(t) AS bucket(t, 600); -- DateTime
CREATE MACRO toStartOfFifteenMinutes(t) AS bucket(t, 900); -- DateTime
CREATE MACRO timeSlot(t) AS bucket(t, 1800); -- DateTime
CREATE MACRO toStartOfMonth(t) AS date_trunc('month', t::TIMESTAMP)::DATE; -- Date
CREATE MACRO toStartOfQuarter(t) AS date_trunc('quarter', t::TIMESTAMP)::DATE; -- Date
CREATE MACRO toStartOfYear(t) AS date_trunc('year', t::TIMESTAMP)::DATE; -- Date
CREATE MACRO toMonday(t) AS date_trunc('week', t::TIMESTAMP)::DATE; -- Date
CREATE MACRO toStartOfISOYear(t) AS date_trunc('week', make_date(isoyear(t::DATE), 1, 4))::DATE; -- Date
-- Weeks begin on Sunday unless an odd mode is given.
CREATE MACRO toStartOfWeek(t) AS t::DATE - dayofweek(t::DATE)::INTEGER,
  (t, mode) AS CASE WHEN mode % 2 = 1 THEN date_trunc('week', t::TIMESTAMP)::DATE
    ELSE t::DATE - dayofweek(t::DATE)::INTEGER END; -- Date
CREATE MACRO toLastDayOfMonth(t) AS last_day(t::DATE); -- Date
CREATE MACRO toLastDayOfWeek(t) AS t::DATE + (6 - dayofweek(t::DATE))::INTEGER,
  (t, mode) AS CASE WHEN mode % 2 = 1 THEN date_trunc('week', t::TIMESTAMP)::DATE + 6
    ELSE t::DATE + (6 - dayofweek(t::DATE))::INTEGER END; -- Date
CREATE MACRO toYear(t) AS year(t::DATE)::USMALLINT; -- UInt16
CREATE MACRO toQuarter(t) AS quarter(t::DATE)::UTINYINT; -- UInt8
CREATE MACRO toMonth(t) AS month(t::DATE)::UTINYINT; -- UInt8
CREATE MACRO toDayOfMonth(t) AS day(t::DATE)::UTINYINT; -- UInt8
CREATE MACRO toDayOfWeek(t) AS isodow(t::DATE)::UTINYINT, (t, mode) AS (CASE mode % 4 WHEN 0 THEN isodow(t::DATE)
  WHEN 1 THEN isodow(t::DATE) - 1 WHEN 2 THEN isodow(t::DATE) % 7 ELSE isodow(t::DATE) % 7 + 1 END)::UTINYINT; -- UInt8
CREATE MACRO toDayOfYear(t) AS dayofyear(t::DATE)::USMALLINT; -- UInt16
CREATE MACRO toHour(t) AS hour(t::TIMESTAMP)::UTINYINT; -- UInt8
CREATE MACRO toMinute(t) AS minute(t::TIMESTAMP)::UTINYINT; -- UInt8
CREATE MACRO toSecond(t) AS second(t::TIMESTAMP)::UTINYINT; -- UInt8
CREATE MACRO toMillisecond(t) AS (millisecond(t::TIMESTAMP) % 1000)::USMALLINT; -- UInt16
-- Modes: 0 weeks from Sunday, 1 and 3 from Monday with four days or more in the year.
CREATE MACRO weekOf(d, mode) AS CASE WHEN mode = 0 THEN strftime(d, '%U')::INTEGER WHEN mode = 3 THEN weekofyear(d)
  WHEN mode = 1 THEN CASE WHEN isoyear(d) < year(d) THEN 0 WHEN isoyear(d) > year(d) THEN 53 ELSE weekofyear(d) END
  ELSE error('not answered here: weeks of this mode') END;
CREATE MACRO toWeek(t) AS weekOf(t::DATE, 0)::UTINYINT, (t, mode) AS weekOf(t::DATE, mode)::UTINYINT; -- UInt8
CREATE MACRO yearWeek(d, mode) AS CASE WHEN mode IN (1, 3) THEN isoyear(d) * 100 + weekofyear(d)
  WHEN mode <> 0 THEN error('not answered here: weeks of this mode')
  WHEN strftime(d, '%U') = '00' THEN (year(d) - 1) * 100 + strftime(make_date(year(d)::INTEGER - 1, 12, 31), '%U')::INTEGER
  ELSE year(d) * 100 + strftime(d, '%U')::INTEGER END;
CREATE MACRO toYearWeek(t) AS yearWeek(t::DATE, 0)::UINTEGER, (t, mode) AS yearWeek(t::DATE, mode)::UINTEGER; -- UInt32
CREATE MACRO toISOWeek(t) AS weekofyear(t::DATE)::UTINYINT; -- UInt8
CREATE MACRO toISOYear(t) AS isoyear(t::DATE)::USMALLINT; -- UInt16
CREATE MACRO toYYYYMM(t) AS (year(t::DATE) * 100 + month(t::DATE))::UINTEGER; -- UInt32
CREATE MACRO toYYYYMMDD(t) AS strftime(t::TIMESTAMP, '%Y%m%d')::UINTEGER; -- UInt32
CREATE MACRO toYYYYMMDDhhmmss(t) AS strftime(t::TIMESTAMP, '%Y%m%d%H%M%S')::UBIGINT; -- UInt64
CREATE MACRO YYYYMMDDToDate(n) AS strptime(n::VARCHAR, '%Y%m%d')::DATE; -- Date
CREATE MACRO toRelativeYearNum(t) AS year(t::DATE)::USMALLINT; -- UInt16
CREATE MACRO toRelativeMonthNum(t) AS (year(t::DATE) * 12 + month(t::DATE))::UINTEGER; -- UInt32
CREATE MACRO toRelativeDayNum(t) AS (t::DATE - DATE '1970-01-01')::UINTEGER; -- UInt32
CREATE MACRO toRelativeHourNum(t) AS (epoch(t::TIMESTAMP)::BIGINT // 3600)::UINTEGER; -- UInt32
CREATE MACRO toRelativeMinuteNum(t) AS (epoch(t::TIMESTAMP)::BIGINT // 60)::UINTEGER; -- UInt32
CREATE MACRO toRelativeSecondNum(t) AS epoch(t::TIMESTAMP)::UINTEGER; -- UInt32
CREATE MACRO toDaysSinceYearZero(t) AS (t::DATE - DATE '1970-01-01' + 719528)::UINTEGER; -- UInt32
CREATE MACRO fromDaysSinceYearZero(n) AS DATE '1970-01-01' + (n::INTEGER - 719528); -- Date
CREATE MACRO toUnixTimestamp64Milli(t) AS epoch_ms(t::TIMESTAMP); -- Int64
CREATE MACRO toUnixTimestamp64Micro(t) AS epoch_us(t::TIMESTAMP); -- Int64
CREATE MACRO toUnixTimestamp64Nano(t) AS epoch_ns(t::TIMESTAMP_NS); -- Int64
CREATE MACRO fromUnixTimestamp64Milli(n) AS make_timestamp(n::BIGINT * 1000)::TIMESTAMP_MS; -- DateTime64(3)
CREATE MACRO fromUnixTimestamp64Micro(n) AS make_timestamp(n::BIGINT); -- DateTime64(6)
CREATE MACRO fromUnixTimestamp64Nano(n) AS make_timestamp_ns(n::BIGINT); -- DateTime64(9)
CREATE MACRO makeDate(y, m, d) AS make_date(y::INTEGER, m::INTEGER, d::INTEGER),
  (y, n) AS make_date(y::INTEGER, 1, 1) + (n::INTEGER - 1); -- Date
CREATE MACRO makeDateTime(y, m, d, h, i, s) AS make_timestamp(y::BIGINT, m::BIGINT, d::BIGINT,
  h::BIGINT, i::BIGINT, s::DOUBLE)::TIMESTAMP_S; -- DateTime
CREATE MACRO makeDateTime64(y, m, d, h, i, s) AS make_timestamp(y::BIGINT, m::BIGINT, d::BIGINT,
  h::BIGINT, i::BIGINT, s::DOUBLE)::TIMESTAMP_MS, (y, m, d, h, i, s, ms) AS make_timestamp(y::BIGINT,
  m::BIGINT, d::BIGINT, h::BIGINT, i::BIGINT, s::DOUBLE + ms / 1000)::TIMESTAMP_MS; -- DateTime64(3)
CREATE MACRO monthName(t) AS monthname(t::DATE); -- String
CREATE MACRO parseDateTimeBestEffort(x) AS bestTime(x)::TIMESTAMP_S; -- DateTime
CREATE MACRO parseDateTime64BestEffort(x) AS bestTime(x)::TIMESTAMP_MS; -- DateTime64(3)
CREATE MACRO parseDateTimeBestEffortOrNull(x) AS tryTime(x)::TIMESTAMP_S; -- Nullable(DateTime)
CREATE MACRO parseDateTimeBestEffortOrZero(x) AS coalesce(tryTime(x), make_timestamp(0))::TIMESTAMP_S; -- DateTime
CREATE MACRO dateTimeToSnowflakeID(t) AS ((epoch_ms(t::TIMESTAMP)) << 22)::UBIGINT; -- UInt64

-- arrays
CREATE MACRO has(a, x) AS coalesce(list_contains(a, x), len(list_filter(a, lambda v_: v_ IS NULL)) > 0); -- flag
CREATE MACRO hasAny(a, b) AS list_has_any(a, b); -- flag
CREATE MACRO hasAll(a, b) AS list_has_all(a, b); -- flag
CREATE MACRO hasSubstr(a, b) AS (len(b) = 0 OR list_contains(list_transform(a,
  lambda v_, i_: a[i_:i_ + len(b) - 1]), b)); -- flag
CREATE MACRO indexOf(a, x) AS coalesce(list_position(a, x), 0)::UBIGINT; -- UInt64
CREATE MACRO countEqual(a, x) AS len(list_filter(a, lambda v_: v_ = x))::UBIGINT; -- UInt64
CREATE MACRO arraySlice(a, start) AS sliceOf(a, start::BIGINT, len(a)),
  (a, start, n) AS sliceOf(a, start::BIGINT, n::BIGINT); -- $1
CREATE MACRO arrayReverse(a) AS list_reverse(a); -- $1
CREATE MACRO arrayDistinct(a) AS list_filter(a, lambda v_, i_: v_ IS NOT NULL AND list_position(a, v_) = i_); -- $1
CREATE MACRO arrayUniq(a) AS (list_unique(a) + CASE WHEN len(list_filter(a, lambda v_: v_ IS NULL)) > 0 THEN 1 ELSE 0 END)::UINTEGER; -- UInt32
CREATE MACRO arrayCompact(a) AS list_filter(a, lambda v_, i_: i_ = 1 OR v_ IS DISTINCT FROM a[i_ - 1]); -- $1
CREATE MACRO arrayEnumerate(a) AS list_transform(a, lambda v_, i_: i_::UINTEGER); -- Array(UInt32)
CREATE MACRO arrayEnumerateUniq(a) AS list_transform(a, lambda v_, i_: len(list_filter(a[:i_],
  lambda w_: w_ IS NOT DISTINCT FROM v_))::UINTEGER); -- Array(UInt32)
CREATE MACRO arrayEnumerateDense(a) AS list_transform(a, lambda v_: list_position(list_filter(a,
  lambda w_, i_: list_position(a, w_) = i_), v_)::UINTEGER); -- Array(UInt32)
CREATE MACRO arrayAvg(a) AS coalesce(list_avg(a), 'nan'::DOUBLE); -- Float64
CREATE MACRO arrayProduct(a) AS coalesce(list_product(a), 1)::DOUBLE; -- Float64
CREATE MACRO arrayIntersect(a, b) AS list_filter(a, lambda v_, i_: list_position(a, v_) = i_ AND list_contains(b, v_)); -- $1
CREATE MACRO arrayPopBack(a) AS a[:len(a) - 1]; -- $1
CREATE MACRO arrayPopFront(a) AS a[2:]; -- $1
CREATE MACRO arrayExcept(a, b) AS list_filter(a, lambda v_: NOT list_contains(b, v_)); -- $1
CREATE MACRO arrayJaccardIndex(a, b) AS len(list_distinct(list_intersect(a, b)))
  / len(list_distinct(list_concat(a, b))); -- Float64
CREATE MACRO arrayRotateLeft(a, n) AS rotatedLeft(a, n::BIGINT); -- $1
CREATE MACRO arrayRotateRight(a, n) AS rotatedLeft(a, -(n::BIGINT)); -- $1
CREATE MACRO L1Norm(a) AS list_sum(list_transform(a, lambda v_: abs(v_)))::DOUBLE; -- Float64
CREATE MACRO L2Norm(a) AS sqrt(list_sum(list_transform(a, lambda v_: v_::DOUBLE * v_)))::DOUBLE; -- Float64
CREATE MACRO L2Distance(a, b) AS list_distance(a::DOUBLE[], b::DOUBLE[]); -- Float64
CREATE MACRO cosineDistance(a, b) AS list_cosine_distance(a::DOUBLE[], b::DOUBLE[]); -- Float64
CREATE MACRO mapFromArrays(k, v) AS map(k, v); -- Map(item($1), item($2))
CREATE MACRO emptyArrayString() AS CAST([] AS VARCHAR[]); -- Array(String)
CREATE MACRO emptyArrayUInt8() AS CAST([] AS UTINYINT[]); -- Array(UInt8)
CREATE MACRO emptyArrayUInt64() AS CAST([] AS UBIGINT[]); -- Array(UInt64)
CREATE MACRO mapKeys(m) AS map_keys(m); -- Array(key($1))
CREATE MACRO mapValues(m) AS map_values(m); -- Array(item($1))
CREATE MACRO mapContains(m, k) AS list_contains(map_keys(m), k); -- flag
CREATE MACRO mapContainsKey(m, k) AS list_contains(map_keys(m), k); -- flag
CREATE MACRO mapConcat(m, n) AS map_concat(m, n); -- $1
CREATE MACRO mapUpdate(m, n) AS map_concat(m, n); -- $1
CREATE MACRO mapSort(m) AS map_from_entries(list_sort(map_entries(m))); -- $1

-- JSON: a text that is not JSON has no fields
CREATE MACRO jsonAt(x, path) AS CASE WHEN json_valid(x) THEN json_extract(x, path) END;
CREATE MACRO jsonText(x, path) AS CASE WHEN json_valid(x) THEN json_extract_string(x, path) END;
CREATE MACRO jsonKind(x, path) AS CASE WHEN json_valid(x) THEN json_type(x, path) END;
CREATE MACRO isValidJSON(x) AS json_valid(x); -- flag
CREATE MACRO JSON_EXISTS(x, path) AS coalesce(jsonAt(x, path) IS NOT NULL, false); -- flag
CREATE MACRO JSON_QUERY(x, path) AS coalesce('[' || jsonAt(x, path)::VARCHAR || ']', ''); -- String
CREATE MACRO JSON_VALUE(x, path) AS coalesce(CASE WHEN jsonKind(x, path) NOT IN ('OBJECT', 'ARRAY')
  THEN jsonText(x, path) END, ''); -- String
CREATE MACRO jsonRest(x, k) AS CASE WHEN instr(x, '"' || k || '":') > 0
  THEN substring(x, instr(x, '"' || k || '":') + length(k) + 3) END;
CREATE MACRO simpleJSONHas(x, k) AS (instr(x, '"' || k || '":') > 0); -- flag
CREATE MACRO simpleJSONExtractInt(x, k) AS coalesce(TRY_CAST(regexp_extract(jsonRest(x, k), '^"?(-?\d+)', 1) AS BIGINT), 0); -- Int64
CREATE MACRO simpleJSONExtractUInt(x, k) AS coalesce(TRY_CAST(regexp_extract(jsonRest(x, k), '^"?(\d+)', 1) AS UBIGINT), 0); -- UInt64
CREATE MACRO simpleJSONExtractFloat(x, k) AS coalesce(TRY_CAST(regexp_extract(jsonRest(x, k), '^"?(-?[0-9.eE+-]+)', 1) AS DOUBLE), 0); -- Float64
CREATE MACRO simpleJSONExtractBool(x, k) AS coalesce(starts_with(jsonRest(x, k), 'true'), false); -- flag
CREATE MACRO simpleJSONExtractString(x, k) AS coalesce(json_extract_string(nullif(regexp_extract(
  jsonRest(x, k), '^"(?:[^"\\]|\\.)*"'), ''), '$'), ''); -- String
CREATE MACRO simpleJSONExtractRaw(x, k) AS CASE WHEN instr(x, '"' || k || '":') = 0 THEN ''
  WHEN json_valid(x) AND json_extract(x, '$."' || k || '"') IS NOT NULL THEN json_extract(x, '$."' || k || '"')::VARCHAR
  ELSE error('not answered here: simpleJSONExtractRaw of a nested field; take JSONExtractRaw') END; -- String

-- The printer makes the path from keys and indexes.
CREATE MACRO JSONExtractString(x, path) AS coalesce(jsonText(x, path), ''); -- String
CREATE MACRO JSONExtractInt(x, path) AS coalesce(TRY_CAST(jsonWhole(jsonText(x, path)) AS BIGINT), 0); -- Int64
CREATE MACRO JSONExtractUInt(x, path) AS coalesce(TRY_CAST(jsonWhole(jsonText(x, path)) AS UBIGINT), 0); -- UInt64
CREATE MACRO JSONExtractFloat(x, path) AS coalesce(TRY_CAST(jsonText(x, path) AS DOUBLE), 0); -- Float64
CREATE MACRO JSONExtractBool(x, path) AS CASE WHEN jsonKind(x, path) = 'VARCHAR' THEN false
  ELSE coalesce(jsonText(x, path) = 'true' OR jsonWhole(jsonText(x, path)) <> 0, false) END; -- flag
CREATE MACRO JSONExtractRaw(x, path) AS coalesce(jsonAt(x, path)::VARCHAR, ''); -- String
CREATE MACRO JSONExtractArrayRaw(x, path) AS coalesce(jsonAt(x, path || '[*]')::VARCHAR[], []); -- Array(String)
CREATE MACRO JSONExtractKeys(x, path) AS coalesce(json_keys(jsonAt(x, path)), []); -- Array(String)
CREATE MACRO JSONHas(x, path) AS (jsonAt(x, path) IS NOT NULL); -- flag
CREATE MACRO JSONLength(x, path) AS jsonLengthOf(jsonAt(x, path)); -- UInt64
CREATE MACRO JSONType(x, path) AS jsonTypeName(jsonKind(x, path)); -- Enum8('Null' = 0, 'String' = 34, 'Array' = 91, 'Bool' = 98, 'Double' = 100, 'Int64' = 105, 'UInt64' = 117, 'Object' = 123)
CREATE MACRO JSONKey(x, n) AS coalesce(json_keys(jsonAt(x, '$'))[n], ''); -- String

-- URLs
CREATE MACRO domainOf(u) AS CASE WHEN regexp_matches(u, '^([A-Za-z][A-Za-z0-9+.-]*:)?(//)?[^/?#]*[@\[]')
  THEN error('not answered here: the domain of a URL with a user or an IPv6 address') ELSE regexp_extract(u, '^(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?([^/:?#]*)', 1) END;
CREATE MACRO domain(u) AS domainOf(u); -- String
CREATE MACRO domainWithoutWWW(u) AS regexp_replace(domainOf(u), '^www\.', ''); -- String
CREATE MACRO topLevelDomain(u) AS regexp_extract(domainOf(u), '\.([^.0-9][^.]*)$', 1); -- String
CREATE MACRO protocol(u) AS regexp_extract(u, '^([A-Za-z][A-Za-z0-9+.-]*):', 1); -- String
CREATE MACRO port(u) AS coalesce(TRY_CAST(regexp_extract(u, '^(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?[^/?#]*?:(\d+)', 1) AS USMALLINT), 0)::USMALLINT,
  (u, other) AS coalesce(TRY_CAST(regexp_extract(u, '^(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?[^/?#]*?:(\d+)', 1) AS USMALLINT), other)::USMALLINT; -- UInt16
CREATE MACRO path(u) AS regexp_extract(u, '^(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?[^/?#]*([^?#]*)', 1); -- String
CREATE MACRO pathFull(u) AS regexp_extract(u, '^(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?[^/?#]*(.*)', 1); -- String
CREATE MACRO queryString(u) AS regexp_extract(u, '\?([^#]*)', 1); -- String
CREATE MACRO fragment(u) AS regexp_extract(u, '#(.*)', 1); -- String
CREATE MACRO queryStringAndFragment(u) AS regexp_extract(u, '\?(.*)', 1); -- String
CREATE MACRO extractURLParameters(u) AS regexp_extract_all(regexp_extract(u, '[?#](.*)', 1), '[^&;#=]+=[^&;#]*'); -- Array(String)
CREATE MACRO extractURLParameterNames(u) AS regexp_extract_all(regexp_extract(u, '[?#](.*)', 1), '([^&;#=]+)=', 1); -- Array(String)
CREATE MACRO extractURLParameter(u, name) AS coalesce(regexp_extract(u, '[?&;#]' || regexp_escape(name) || '=([^&;#]*)', 1), ''); -- String
CREATE MACRO cutQueryString(u) AS regexp_replace(u, '\?[^#]*', ''); -- String
CREATE MACRO cutFragment(u) AS regexp_replace(u, '#.*', ''); -- String
CREATE MACRO cutQueryStringAndFragment(u) AS regexp_replace(u, '[?#].*', ''); -- String
CREATE MACRO cutWWW(u) AS regexp_replace(u, '^((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)www\.', '\1'); -- String
CREATE MACRO decodeURLComponent(x) AS url_decode(x); -- String
CREATE MACRO encodeURLComponent(x) AS url_encode(x); -- String
CREATE MACRO IPv4NumToString(n) AS format('{}.{}.{}.{}', (n >> 24) & 255, (n >> 16) & 255, (n >> 8) & 255, n & 255); -- String
CREATE MACRO IPv4StringToNum(x) AS list_reduce(list_transform(string_split(x, '.'), lambda p_: p_::UBIGINT),
  lambda a_, p_: a_ * 256 + p_)::UINTEGER; -- UInt32
CREATE MACRO isIPv4String(x) AS regexp_full_match(x, '((25[0-5]|2[0-4]\d|1?\d?\d)(\.|$)){4}'); -- flag

-- environment
CREATE MACRO timeZone() AS 'UTC'; -- String
CREATE MACRO serverTimezone() AS 'UTC'; -- String
CREATE MACRO currentDatabase() AS 'chain'; -- String
CREATE MACRO sleep(seconds) AS 0::UTINYINT; -- UInt8
CREATE MACRO sleepEachRow(seconds) AS 0::UTINYINT; -- UInt8
CREATE MACRO currentUser() AS 'default'; -- String
CREATE MACRO user() AS 'default'; -- String
CREATE MACRO toLowCardinality(x) AS x; -- LowCardinality($1)
CREATE MACRO hostName() AS 'sluice'; -- String
CREATE MACRO uptime() AS 0::UINTEGER; -- UInt32
CREATE MACRO rand() AS (random() * 4294967296)::UINTEGER, (x) AS (random() * 4294967296)::UINTEGER; -- UInt32
CREATE MACRO rand32() AS (random() * 4294967296)::UINTEGER, (x) AS (random() * 4294967296)::UINTEGER; -- UInt32
CREATE MACRO rand64() AS ((random() * 4294967295)::UBIGINT << 32) + (random() * 4294967295)::UBIGINT; -- UInt64
CREATE MACRO randCanonical() AS random(); -- Float64
CREATE MACRO randUniform(a, b) AS a + random() * (b - a); -- Float64
CREATE MACRO generateUUIDv4() AS gen_random_uuid(); -- UUID
CREATE MACRO rowNumberInAllBlocks() AS (row_number() OVER () - 1)::UBIGINT; -- UInt64

-- helpers of functions-arrays.ts
-- A begin below 0 counts from the end, a length below 0 ends that far before it.
CREATE MACRO sliceOf(a, start, n) AS CASE WHEN start = 0 THEN a[1:0]
  ELSE a[greatest(CASE WHEN start > 0 THEN start ELSE len(a) + start + 1 END, 1):greatest(CASE WHEN n < 0 THEN len(a) + n
    ELSE CASE WHEN start > 0 THEN start ELSE len(a) + start + 1 END + n - 1 END, 0)] END;
CREATE MACRO lastTrue(flags) AS CASE WHEN list_contains(flags, true)
  THEN len(flags) - list_position(list_reverse(flags), true) + 1 ELSE 0 END::UINTEGER;
CREATE MACRO filledFrom(a, flags) AS list_transform(a, lambda v_, i_: a[list_max(list_filter(
  list_transform(flags[:i_], lambda f_, k_: CASE WHEN f_ OR k_ = 1 THEN k_ END), lambda k_: k_ IS NOT NULL))]);
CREATE MACRO splitWhere(a, flags) AS list_transform(list_filter(list_transform(flags,
  lambda f_, k_: CASE WHEN f_ OR k_ = 1 THEN k_ END), lambda k_: k_ IS NOT NULL),
  lambda b_: a[b_:b_ - 1 + coalesce(nullif(list_position(flags[b_ + 1:], true), 0), len(a) - b_ + 1)]);
CREATE MACRO rotatedLeft(a, n) AS list_concat(a[(n % len(a) + len(a)) % len(a) + 1:], a[:(n % len(a) + len(a)) % len(a)]);
CREATE MACRO runningSums(a) AS list_transform(a, lambda v_, i_: list_sum(a[:i_]));
CREATE MACRO runningSumsAbove(a) AS list_transform(list_transform(a, lambda v_, i_: list_sum(a[:i_])),
  lambda s_, i_: s_ - least(0, list_min(list_transform(a[:i_], lambda w_, k_: list_sum(a[:k_])))));
CREATE MACRO movingSums(a, n) AS list_transform(a, lambda v_, i_: list_sum(a[greatest(i_ - n + 1, 1):i_]));
CREATE MACRO differences(a) AS list_transform(a, lambda v_, i_: CASE WHEN i_ = 1 THEN 0 ELSE v_ - a[i_ - 1] END);

-- helpers of functions-conversions.ts
CREATE MACRO wholeText(x) AS CASE WHEN regexp_full_match(x, '[+-]?\d+') THEN x
  ELSE error('Cannot parse string ''' || x || ''' as a whole number') END;
CREATE MACRO tryWholeText(x) AS CASE WHEN regexp_full_match(x, '[+-]?\d+') THEN x END;
CREATE MACRO wholeOf(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') OR typeof(x) LIKE 'DECIMAL%'
  THEN trunc(TRY_CAST(x AS DOUBLE))::HUGEINT WHEN typeof(x) LIKE 'TIMESTAMP%' THEN epoch(TRY_CAST(x AS TIMESTAMP))::HUGEINT
  ELSE x::HUGEINT END;
-- ClickHouse writes a float without an exponent from 1e-6 up to 1e21.
CREATE MACRO plainDigits(sign, digits, e) AS sign || CASE WHEN e >= 0 THEN rpad(digits, e + 1, '0')
  ELSE '0.' || repeat('0', -e - 1) || digits END;
CREATE MACRO floatText(x) AS CASE WHEN NOT contains(x::VARCHAR, 'e') THEN regexp_replace(x::VARCHAR, '\.0$', '')
  WHEN abs(x) >= 1e-6 AND abs(x) < 1e21 THEN plainDigits(regexp_extract(x::VARCHAR, '^-'),
    replace(regexp_extract(x::VARCHAR, '([0-9.]+)e', 1), '.', ''), regexp_extract(x::VARCHAR, 'e(.*)$', 1)::INTEGER)
  ELSE regexp_replace(replace(x::VARCHAR, 'e+', 'e'), 'e(-?)0+', 'e\1') END;
CREATE MACRO decimalText(x) AS regexp_replace(regexp_replace(x::VARCHAR, '(\.\d*?)0+$', '\1'), '\.$', '');
CREATE MACRO quotedText(x) AS '''' || replace(replace(x, '\', '\\'), '''', '\''') || '''';
CREATE MACRO anyText(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN regexp_replace(x::VARCHAR, '\.0$', '')
  WHEN typeof(x) LIKE '%[]' OR typeof(x) LIKE '%(%' THEN error('not answered here: toString of this type')
  ELSE x::VARCHAR END;
CREATE MACRO dateFrom(n) AS CASE WHEN n < 65536 THEN DATE '1970-01-01' + n::INTEGER
  ELSE make_timestamp(n * 1000000)::DATE END;
CREATE MACRO secondTime(n) AS make_timestamp(n * 1000000)::TIMESTAMP_S;
CREATE MACRO anyDate(x) AS CASE WHEN typeof(x) LIKE '%INT%' THEN DATE '1970-01-01' + TRY_CAST(x AS UINTEGER)::INTEGER
  ELSE x::DATE END;
CREATE MACRO anyDateTime(x) AS CASE WHEN typeof(x) LIKE '%INT%' OR typeof(x) IN ('DOUBLE', 'FLOAT')
  THEN make_timestamp(trunc(TRY_CAST(x AS DOUBLE))::BIGINT * 1000000) ELSE date_trunc('second', x::TIMESTAMP) END::TIMESTAMP_S;

-- helpers of operators.ts and functions-times.ts
CREATE MACRO withNanoseconds(t, other) AS make_timestamp_ns(epoch_ns(t) + epoch_ns(other::TIMESTAMP_NS) % 1000);
CREATE MACRO unitsBetween(unit, a, b) AS date_diff(unit, a::TIMESTAMP, b::TIMESTAMP);
CREATE MACRO wholeUnitsBetween(unit, a, b) AS date_sub(unit, a::TIMESTAMP, b::TIMESTAMP);
CREATE MACRO monthsUpTo(a, b) AS date_diff('month', a, b)
  - CASE WHEN strftime(b, '%d%H%M%S%f') < strftime(a, '%d%H%M%S%f') THEN 1 ELSE 0 END;
CREATE MACRO wholeMonthsBetween(n, a, b) AS CASE WHEN a <= b THEN monthsUpTo(a::TIMESTAMP, b::TIMESTAMP) // n
  ELSE -(monthsUpTo(b::TIMESTAMP, a::TIMESTAMP) // n) END;
CREATE MACRO millisecondBucket(t, n) AS make_timestamp(epoch_us(t::TIMESTAMP) // (n * 1000) * (n * 1000))::TIMESTAMP_MS;
CREATE MACRO weekBucket(t, n) AS DATE '1970-01-05' + ((t::DATE - DATE '1970-01-05') // (n * 7) * (n * 7))::INTEGER;
CREATE MACRO monthBucket(t, n) AS (DATE '1970-01-01' + to_months((((year(t::DATE) - 1970) * 12 + month(t::DATE) - 1)
  // n * n)::INTEGER))::DATE;
CREATE MACRO yearBucket(t, n) AS make_date((year(t::DATE) // n * n)::INTEGER, 1, 1);
CREATE MACRO weeksBetween(a, b) AS (date_trunc('week', b::DATE)::DATE - date_trunc('week', a::DATE)::DATE)::BIGINT // 7;

-- helpers of functions-numbers.ts and functions-texts.ts
CREATE MACRO throwWhere(x, message) AS (CASE WHEN x THEN error('throwIf: ' || message) ELSE 0 END)::UTINYINT;
CREATE MACRO evenHex(x) AS CASE WHEN strlen(x) % 2 = 1 THEN '0' || x ELSE x END;
CREATE MACRO wholeBytes(x) AS lpad(x, ((strlen(x) + 7) // 8 * 8)::INTEGER, '0');
CREATE MACRO jsonWhole(x) AS CASE WHEN regexp_full_match(x, '-?\d+') THEN TRY_CAST(x AS HUGEINT)
  ELSE TRY_CAST(trunc(TRY_CAST(x AS DOUBLE)) AS HUGEINT) END;
CREATE MACRO jsonLengthOf(j) AS (CASE json_type(j) WHEN 'ARRAY' THEN json_array_length(j) WHEN 'OBJECT' THEN len(json_keys(j))
  ELSE 0 END)::UBIGINT;
CREATE MACRO jsonTypeName(kind) AS CASE kind WHEN 'VARCHAR' THEN 'String' WHEN 'ARRAY' THEN 'Array' WHEN 'BOOLEAN' THEN 'Bool'
  WHEN 'DOUBLE' THEN 'Double' WHEN 'BIGINT' THEN 'Int64' WHEN 'UBIGINT' THEN 'Int64' WHEN 'OBJECT' THEN 'Object' ELSE 'Null' END;

-- helpers of typing.ts and operators.ts: where a type is not known, division, ARRAY JOIN
CREATE MACRO orDefault(x) AS coalesce(x, cast_to_type(CASE WHEN typeof(x) = 'VARCHAR' THEN ''
  WHEN typeof(x) LIKE 'TIMESTAMP%' OR typeof(x) = 'DATE' THEN '1970-01-01' WHEN typeof(x) LIKE '%[]' THEN '[]'
  WHEN typeof(x) LIKE 'MAP(%' THEN '{}' WHEN typeof(x) = 'UUID' THEN '00000000-0000-0000-0000-000000000000'
  WHEN typeof(x) LIKE 'STRUCT(%' THEN NULL ELSE '0' END, x));
CREATE MACRO nonZero(x) AS CASE WHEN x = 0 THEN error('Division by zero') ELSE x END;
CREATE MACRO sameLength(a, b) AS CASE WHEN len(a) <> len(b)
  THEN error('Sizes of ARRAY-JOIN-ed arrays do not match') ELSE a END;

-- Functions of ClickHouse whose exact result is not computed here.
-- refused: cityHash64 sipHash64 sipHash128 xxHash32 xxHash64 xxh3 murmurHash2_32 murmurHash2_64
-- refused: murmurHash3_32 murmurHash3_64 murmurHash3_128 farmHash64 farmFingerprint64 metroHash64 intHash32
-- refused: intHash64 gccMurmurHash URLHash SHA224 SHA384 SHA512 SHA512_256 MD4 CRC32 CRC64 CRC32IEEE BLAKE3
-- refused: keccak256 base32Encode base32Decode erf erfc
-- refused: windowFunnel sequenceMatch sequenceCount histogram topKWeighted
-- refused: quantileExactWeighted quantileDeterministic quantileExactExclusive exponentialMovingAverage
-- refused: rankCorr cramersV contingency theilsU mannWhitneyUTest studentTTest welchTTest
-- refused: stochasticLinearRegression sparkbar categoricalInformationValue largestTriangleThreeBuckets
-- refused: maxIntersections intervalLengthSum deltaSumTimestamp groupArrayInsertAt varPopStable varSampStable
-- refused: stddevPopStable stddevSampStable formatRow reinterpretAsUInt64 reinterpretAsUInt32
-- refused: reinterpretAsInt8 reinterpretAsString normalizeQuery toFixedString arrayUnion
-- refused: arraySymmetricDifference arrayNormalizedGini arrayAUC arrayRandomSample runningDifference neighbor
-- refused: dictGet joinGet getSetting arrayFold arrayPartialSort mapApply mapAdd
-- refused: mapSubtract untuple toTime timeSlots byteSwap bitSlice soundex toIPv4 toIPv6 toUInt256 toInt256
