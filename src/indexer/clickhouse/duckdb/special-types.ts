// Functions of values that DuckDB would compute otherwise: times with a time zone, which are stored
// in UTC, and enums, which are numbers with names.
// A function that no table here names is refused for them, never answered as if they were plain.
import { type CallOf, notAnswered } from './entry.ts'
import {
  duckdbTypeOf,
  enumNumber,
  enumValues,
  hasZone,
  isEnum,
  isNullable,
  isText,
  movedTime,
  type Typed,
  timeIn,
  zoneOf,
} from './typing.ts'

type Print = (call: CallOf) => Typed

const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/))

const comparisons = words('equals notequals less lessorequals greater greaterorequals')
/** Of the local time; the result is no time of day. */
const local = words(`toyear toquarter tomonth todayofmonth todayofweek todayofyear tohour tominute
  tosecond tomillisecond toweek toyearweek toisoweek toisoyear toyyyymm toyyyymmdd toyyyymmddhhmmss
  todate todate32 tostring tostartofmonth tostartofquarter tostartofyear tostartofweek tomonday
  tostartofisoyear tolastdayofmonth tolastdayofweek formatdatetime date_format datename monthname
  year quarter month day dayofmonth dayofweek dayofyear hour minute second week date`)
/** Of the local time; the result is a local time again. */
const localTimes = words(`tostartofday tostartofhour tostartofminute tostartoffiveminute
  tostartoffiveminutes tostartoftenminutes tostartoffifteenminutes timeslot tostartofinterval
  date_trunc datetrunc adddays addweeks addmonths addquarters addyears subtractdays subtractweeks
  subtractmonths subtractquarters subtractyears`)
/** Of the moment; a time in the result is in the zone of the argument. */
const moments = words(`addseconds addminutes addhours subtractseconds subtractminutes subtracthours
  plus minus tounixtimestamp tounixtimestamp64milli tounixtimestamp64micro tounixtimestamp64nano
  toint32 toint64 touint32 touint64`)
const zoneMakers = words('totimezone todatetime todatetime64 now')
const anyType = words(`totypename timezoneof isnull isnotnull materialize identity assumenotnull
  tonullable`)
const enumTexts = words('equals notequals tostring concat like notlike ilike notilike')
const enumNumbers = /^to(u?int\d+|float\d+)$/
const aggregates = words(`count uniq uniqexact uniqcombined uniqcombined64 uniqhll12 any any_value
  anylast min max argmin argmax grouparray groupuniqarray first_value last_value`)
/** Where the time zone is among the arguments; else it is the last of two or more. */
const zoneAt: Readonly<Record<string, number>> = {
  ...{ formatdatetime: 2, date_format: 2, datename: 2, date_trunc: 2, datetrunc: 2 },
  ...{ tostartofinterval: 2, todatetime64: 2, now: 0 },
}

const isTimeOfDay = (type: string): boolean => /^(Nullable\()?DateTime/.test(type)
const isSpecial = (type: string): boolean => hasZone(type) || /Enum(8|16)\(/.test(type)

/** Answers a call with such a value by one with plain values; null when it has none. */
export function specialCall(call: CallOf, print: Print): Typed | null {
  const name = call.name.toLowerCase()
  const zone = zoneArgument(name, call)
  if (zone !== null) return withZone(name, call, zone, print)
  const types = call.args.map(({ type }) => type)
  if (!types.some(isSpecial)) return null
  if (anyType.has(name)) return null
  return types.some(hasZone) ? zonedCall(name, call, print) : enumCall(name, call, print)
}

/** Throws for an aggregate function that would compute something else. */
export function checkAggregate(name: string, args: readonly Typed[]): void {
  const special = args.find(({ type }) => isSpecial(type))
  if (special !== undefined && !aggregates.has(name.toLowerCase()))
    throw notAnswered(`${name} of ${special.type}`)
}

/** Throws for a column whose values would be written in UTC. */
export function checkColumns(columns: readonly { readonly type: string }[]): void {
  const nested = columns.find(({ type }) => hasZone(type) && zoneOf(type) === null)
  if (nested !== undefined) throw notAnswered(`a result of type ${nested.type}`)
}

function zoneArgument(name: string, { name: written, args }: CallOf): string | null {
  if (!local.has(name) && !localTimes.has(name) && !zoneMakers.has(name)) return null
  const at = zoneAt[name] ?? Math.max(1, args.length - 1)
  const zone = args[at]
  if (zone === undefined || at !== args.length - 1 || !isText(zone.type)) return null
  if (zone.literal === undefined) throw notAnswered(`${written} of a time zone that is no literal`)
  if (!isZone(zone.literal)) throw notAnswered(`the time zone ${zone.literal.slice(0, 40)}`)
  return zone.literal
}

function isZone(name: string): boolean {
  try {
    return /^[\w+/-]+$/.test(name) && new Intl.DateTimeFormat('en', { timeZone: name }) !== null
  } catch {
    return false
  }
}

/** The zone is the last argument. */
function withZone(name: string, given: CallOf, zone: string, print: Print): Typed {
  const call = { ...given, args: given.args.slice(0, -1), nodes: given.nodes.slice(0, -1) }
  if (!zoneMakers.has(name))
    return print({
      ...call,
      args: call.args.map((one) =>
        isTimeOfDay(one.type) ? { ...one, type: timeIn(one.type, zone) } : one,
      ),
    })
  const [x] = call.args
  if (name === 'totimezone') {
    if (x === undefined || !isTimeOfDay(x.type)) throw notAnswered('toTimeZone of no DateTime')
    return { sql: x.sql, type: timeIn(x.type, zone) }
  }
  const made = print({ ...call, args: call.args.map(plainOf) })
  const type = timeIn(made.type, zone)
  // A text is a time of the zone's clocks, anything else is a moment.
  return { sql: x !== undefined && isText(x.type) ? momentOf(made, zone) : made.sql, type }
}

function zonedCall(name: string, call: CallOf, print: Print): Typed {
  const { args } = call
  const zone = args.map(({ type }) => zoneOf(type)).find((one) => one !== null)
  const refused = notAnswered(`${call.name} of a time with a time zone`)
  if (zone === undefined || zone === null) throw refused
  if (name.includes('format') && args[1]?.literal?.includes('%z')) throw refused
  const isByText = comparisons.has(name) && args.some(({ type }) => isText(type))
  const isByDays = args.some(({ type }) => /^Interval(Day|Week|Month|Quarter|Year)$/.test(type))
  if (local.has(name) || isByText) return print({ ...call, args: args.map(localOf) })
  const isMoment = (moments.has(name) && !isByDays) || comparisons.has(name)
  if (!isMoment && !isByDays && !localTimes.has(name)) throw refused
  const made = print({ ...call, args: args.map(isMoment ? plainOf : localOf) })
  if (!isTimeOfDay(made.type)) return made
  return { sql: isMoment ? made.sql : momentOf(made, zone), type: timeIn(made.type, zone) }
}

/** The moment as a plain time of its zone's clocks. */
function localOf(value: Typed): Typed {
  const zone = zoneOf(value.type)
  if (zone === null) return value
  const target = duckdbTypeOf(timeIn(value.type, null))
  return { sql: movedTime('inZone', value.sql, zone, target), type: timeIn(value.type, null) }
}

function plainOf(value: Typed): Typed {
  return zoneOf(value.type) === null ? value : { ...value, type: timeIn(value.type, null) }
}

/** A time of the zone's clocks as a moment. */
function momentOf({ sql, type }: Typed, zone: string): string {
  return movedTime('fromZone', sql, zone, duckdbTypeOf(timeIn(type, null)))
}

function enumCall(name: string, call: CallOf, print: Print): Typed {
  const type = call.args.find((one) => isEnum(one.type))?.type ?? ''
  const as = enumTexts.has(name) ? enumText : enumNumbers.test(name) ? enumNumber : null
  if (type === '' || (as === null && !comparisons.has(name)))
    throw notAnswered(`${call.name} of an Enum`)
  // Values are ordered by their numbers.
  const args = call.args.map((one) => {
    if (isEnum(one.type)) return (as ?? enumNumber)(one)
    if (as !== null) return one
    if (!enumValues(type).has(one.literal ?? '')) throw notAnswered('an Enum beside another value')
    return enumNumber({ sql: one.sql, type })
  })
  return print({ ...call, args })
}

function enumText({ sql, type }: Typed): Typed {
  return { sql: `CAST(${sql} AS VARCHAR)`, type: isNullable(type) ? 'Nullable(String)' : 'String' }
}
