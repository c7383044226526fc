// The table of ClickHouse's functions. Keys are in lower case.
import { definitions, refusals, writtenNames } from './definitions.ts'
import type { CallOf, Entries } from './entry.ts'
import { arrayFunctions } from './functions-arrays.ts'
import { conversionFunctions } from './functions-conversions.ts'
import { lambdaFunctions } from './functions-lambdas.ts'
import { numberFunctions } from './functions-numbers.ts'
import { textFunctions } from './functions-texts.ts'
import { timeFunctions } from './functions-times.ts'
import { operators } from './operators.ts'
import { duckdbTypeOf } from './typing.ts'

/** DuckDB's own functions of that name, by result type. */
const named: Readonly<Record<string, string>> = {
  Float64: 'sin cos tan atan atan2 sinh cosh tanh degrees radians pi pow lgamma gamma',
  String: 'version translate printf overlay',
}

/** Other names, the first of each line is the one that is defined. */
const synonyms = `toyear year, toquarter quarter, tomonth month, todayofmonth day dayofmonth,
  todayofweek dayofweek, todayofyear dayofyear, tohour hour, tominute minute, tosecond second,
  toisoweek week, trimleft ltrim, trimright rtrim, trimboth trim, leftpad lpad, rightpad rpad,
  lower lcase, upper ucase, replaceall replace, substring substr mid,
  simplejsonhas visitparamhas, simplejsonextractint visitparamextractint,
  simplejsonextractuint visitparamextractuint, simplejsonextractfloat visitparamextractfloat,
  simplejsonextractbool visitparamextractbool, simplejsonextractraw visitparamextractraw,
  simplejsonextractstring visitparamextractstring, arraydotproduct dotproduct,
  tolastdayofmonth last_day, timezone servertimezone, hostname fqdn, base64encode to_base64,
  base64decode from_base64, tounixtimestamp unix_timestamp, todate date,
  concat concatassumeinjective, concatwithseparator concat_ws`

function absolute({ args: [x] }: CallOf): string | null {
  if (x === undefined) return null
  const target = duckdbTypeOf(x.type.replace(/^Int/, 'UInt'))
  return /^Int/.test(x.type) && target !== null
    ? `CAST(abs(CAST(${x.sql} AS HUGEINT)) AS ${target})`
    : `abs(${x.sql})`
}

const defined: Entries = {
  ...Object.fromEntries(
    Object.entries(named).flatMap(([type, names]) => names.split(' ').map((name) => [name, type])),
  ),
  ...refusals,
  ...definitions,
  ...arrayFunctions,
  ...lambdaFunctions,
  ...conversionFunctions,
  ...timeFunctions,
  ...operators,
  ...numberFunctions,
  ...textFunctions,
  abs: { type: ({ args }) => (args[0]?.type ?? '?').replace(/^Int/, 'UInt'), sql: absolute },
}

export const functions: Entries = {
  ...Object.fromEntries(
    synonyms.split(/,\s+/).flatMap((line) => {
      const [own = '', ...others] = line.split(' ')
      return others.map((name) => [name, defined[own]!])
    }),
  ),
  ...defined,
}

/** As ClickHouse writes them, where that is known. */
export const functionNames: readonly string[] = Object.keys(functions)
  .filter((name) => !Object.hasOwn(refusals, name))
  .map((name) => writtenNames.get(name) ?? name)
