// Declares configuration fields: default, unit, bounds and a line of doc.
// File, environment, flags, --help, docs/CONFIG.md and validation are all derived from these
// declarations by config/load.ts and config/docs.ts.
import { exampleOf, formatQuantity, isUnit, parseQuantity } from './units.ts'

export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string }

/** One value. `parse` accepts what a YAML file, an environment variable or a flag may contain. */
export interface Field<T> {
  readonly node: 'field'
  /** Name of the type in docs: `integer`, `text`, `one of a, b`. */
  readonly type: string
  readonly initial: T
  readonly doc: string
  readonly unit?: string
  readonly bounds?: string
  /** The value as `config print` shows it: numbers of a known unit in human form. */
  show?(value: T): string
  readonly secret: Secrecy
  parse(raw: unknown): Parsed<T>
}

/** A secret is never printed: `config print` shows `(set)`. Of a URL that may contain a provider's
 *  key or a password, everything but the origin is secret (`after-origin`). */
export type Secrecy = boolean | 'after-origin'

/** Fields under one key. */
export interface Group<F extends Fields = Fields> {
  readonly node: 'group'
  readonly doc: string
  readonly fields: F
}

/** Groups under names that the operator chooses: `plans.<name>.*`. */
export interface Named<F extends Fields = Fields> {
  readonly node: 'named'
  readonly doc: string
  readonly placeholder: string
  readonly of: Group<F>
  /** Names that exist without being configured; a configured one of that name starts from it. */
  readonly initial: Readonly<Record<string, Values<F>>>
}

/** Groups in a list: `upstreams.<set>.nodes[]`. */
export interface Many<F extends Fields = Fields> {
  readonly node: 'many'
  readonly doc: string
  readonly of: Group<F>
}

// Reason for `any`: a declaration tree is heterogeneous; `Values` recovers each leaf's own type.
// biome-ignore lint/suspicious/noExplicitAny: see the line above.
export type Node = Field<any> | Group<any> | Named<any> | Many<any>
export interface Fields {
  readonly [key: string]: Node
}

export type Value<N> =
  N extends Field<infer T>
    ? T
    : N extends Group<infer F>
      ? Values<F>
      : N extends Named<infer F>
        ? Readonly<Record<string, Values<F>>>
        : N extends Many<infer F>
          ? readonly Values<F>[]
          : never
export type Values<F extends Fields> = { readonly [K in keyof F]: Value<F[K]> }

interface About<T> {
  readonly initial: T
  readonly doc: string
  readonly unit?: string
  readonly secret?: Secrecy
}

export function group<F extends Fields>(doc: string, fields: F): Group<F> {
  return { node: 'group', doc, fields }
}

export function named<F extends Fields>(
  doc: string,
  placeholder: string,
  of: Group<F>,
  initial: Readonly<Record<string, Values<F>>> = {},
): Named<F> {
  return { node: 'named', doc, placeholder, of, initial }
}

export function many<F extends Fields>(doc: string, of: Group<F>): Many<F> {
  return { node: 'many', doc, of }
}

/** The values of fields of which none is set. */
export function initialOf<F extends Fields>(fields: F): Values<F> {
  const initial = (node: Node): unknown => {
    if (node.node === 'field' || node.node === 'named') return node.initial
    return node.node === 'group' ? initialOf(node.fields) : []
  }
  const entries = Object.entries(fields).map(([name, node]) => [name, initial(node)])
  // Reason for the cast: each value is the default of its declaration.
  return Object.fromEntries(entries) as Values<F>
}

export function integer(about: About<number> & { min: number; max: number }): Field<number> {
  return quantity('integer', about, (raw) => {
    const value = typeof raw === 'string' && /^-?\d+$/.test(raw.trim()) ? Number(raw) : raw
    return typeof value === 'number' && Number.isSafeInteger(value) ? value : null
  })
}

export function number(about: About<number> & { min: number; max: number }): Field<number> {
  return quantity('number', about, (raw) => {
    const value = typeof raw === 'string' && raw.trim() !== '' ? Number(raw) : raw
    return typeof value === 'number' && Number.isFinite(value) ? value : null
  })
}

/** A plain number, or text with a unit where the field's unit has such a form. */
function quantity(
  type: 'integer' | 'number',
  about: About<number> & { min: number; max: number },
  parsePlain: (raw: unknown) => number | null,
): Field<number> {
  const { unit, min, max } = about
  const known = unit !== undefined && isUnit(unit) ? unit : null
  const kind = `${type === 'integer' ? 'an' : 'a'} ${type}`
  const example = exampleOf(unit)
  const wrong =
    example === null ? `must be ${kind}` : `must be ${kind} of ${unit}, or as ${example}`
  const made = field<number>(type, about, `${min} to ${max}`, (raw) => {
    const withUnit =
      known !== null && typeof raw === 'string' ? parsePlain(parseQuantity(raw, known)) : null
    const value = withUnit ?? parsePlain(raw)
    if (value === null) return no(wrong)
    return value < min || value > max ? no(`must be ${min} to ${max}`) : yes(value)
  })
  return known === null ? made : { ...made, show: (value) => formatQuantity(value, known) }
}

export function flag(about: About<boolean>): Field<boolean> {
  return field('true or false', about, undefined, (raw) => {
    const value = booleanOf(raw)
    return value === null ? no('must be true or false') : yes(value)
  })
}

/** `auto` is resolved by the module that declares the field, from the rest of the configuration. */
export function autoFlag(about: About<boolean | 'auto'>): Field<boolean | 'auto'> {
  return field('true or false, or auto', about, undefined, (raw) => {
    const value = raw === 'auto' ? raw : booleanOf(raw)
    return value === null ? no('must be true, false or auto') : yes(value)
  })
}

function booleanOf(raw: unknown): boolean | null {
  if (raw === true || raw === 'true' || raw === '1') return true
  return raw === false || raw === 'false' || raw === '0' ? false : null
}

/** Whether the flag of a field may be written without a value, which means true. */
export function isSwitch({ type }: Pick<Field<unknown>, 'type'>): boolean {
  return type.startsWith('true or false')
}

export function text(
  about: About<string> & { check?: (value: string) => string | undefined },
): Field<string> {
  return field('text', about, undefined, (raw) => {
    const value = typeof raw === 'number' ? String(raw) : raw
    if (typeof value !== 'string') return no('must be text')
    const problem = about.check?.(value)
    return problem === undefined ? yes(value) : no(problem)
  })
}

export function choice<T extends string>(
  options: readonly T[],
  about: About<NoInfer<T>>,
): Field<T> {
  return field(`one of ${options.join(', ')}`, about, undefined, (raw) => {
    const found = options.find((option) => option === raw)
    return found === undefined ? no(`must be one of ${options.join(', ')}`) : yes(found)
  })
}

/** A list of texts; from an environment variable or a flag it is separated by commas. */
export function texts(
  about: About<readonly string[]> & { check?: (value: string) => string | undefined },
): Field<readonly string[]> {
  return field('list of texts', about, undefined, (raw) => {
    const value = typeof raw === 'string' ? raw.split(',').filter((part) => part !== '') : raw
    if (!Array.isArray(value) || !value.every((part) => typeof part === 'string'))
      return no('must be a list of texts')
    const problems = value.map((part) => about.check?.(part)).filter((problem) => problem)
    return problems.length === 0 ? yes(value) : no(problems.join('; '))
  })
}

/** Numbers under names of the operator's choice (method weights); flags write `a=1,b=2`. */
export function numbers(
  about: About<Readonly<Record<string, number>>> & { min: number; max: number },
): Field<Readonly<Record<string, number>>> {
  const bounds = `${about.min} to ${about.max}`
  return field('numbers by name', about, bounds, (raw) => {
    const value = typeof raw === 'string' ? fromPairs(raw) : raw
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return no('must be numbers by name')
    for (const [name, entry] of Object.entries(value))
      if (typeof entry !== 'number' || !(entry >= about.min && entry <= about.max))
        return no(`${name} must be a number, ${bounds}`)
    return yes(value as Record<string, number>)
  })
}

function fromPairs(raw: string): Record<string, number> {
  const pairs = raw.split(',').filter((part) => part !== '')
  return Object.fromEntries(
    pairs.map((pair) => {
      const [name = '', value = ''] = pair.split('=')
      return [name.trim(), value === '' ? Number.NaN : Number(value)]
    }),
  )
}

function field<T>(
  type: string,
  about: About<T>,
  bounds: string | undefined,
  parse: (raw: unknown) => Parsed<T>,
): Field<T> {
  return {
    node: 'field',
    type,
    initial: about.initial,
    doc: about.doc,
    secret: about.secret ?? false,
    parse,
    ...(about.unit === undefined ? {} : { unit: about.unit }),
    ...(bounds === undefined ? {} : { bounds }),
  }
}

function yes<T>(value: T): Parsed<T> {
  return { ok: true, value }
}

function no<T>(problem: string): Parsed<T> {
  return { ok: false, problem }
}
