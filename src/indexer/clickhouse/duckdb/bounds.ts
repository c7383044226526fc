// Bounds functions whose arguments amplify memory: a number in the query's text decides how much
// they allocate before an engine limit applies. Thread: main of a query process. Pure.
// Calls that slip through are caught by the memory limit of the process.

interface Node {
  readonly [key: string]: unknown
}

/** Most list items that a call may generate. */
const itemsMax = 1_000_000
/** Most characters that a call may repeat or pad to. */
const charsMax = 100_000

/** An error message when a bound is exceeded, else null. */
export function boundsProblem(name: string, args: readonly Node[]): string | null {
  switch (name) {
    case 'repeat':
    case 'lpad':
    case 'rpad':
      return countProblem(name, args[1], charsMax)
    case 'bar':
      return args.length < 4 ? null : countProblem(name, args[3], charsMax)
    case 'list_resize':
    case 'array_resize':
      return countProblem(name, args[1], itemsMax)
    case 'range':
    case 'generate_series':
      return seriesProblem(name, args)
    case 'format':
    case 'printf':
      return formatProblem(name, args[0])
    default:
      return null
  }
}

function countProblem(name: string, arg: Node | undefined, max: number): string | null {
  const count = arg === undefined ? 0 : numberOf(arg)
  if (count === null) return `${name} takes a plain number as its length, at most ${max}`
  return count <= max ? null : `${name} makes at most ${max}`
}

/** Series of times are streamed, so they are not bounded; series of numbers are. */
function seriesProblem(name: string, args: readonly Node[]): string | null {
  if (args.length === 3 && isTime(args[0]!) && isTime(args[1]!)) return null
  const numbers = args.map(numberOf)
  if (numbers.some((number) => number === null)) return `${name} takes plain numbers`
  const [first = 0, second, third = 1] = numbers as number[]
  const [from, to] = second === undefined ? [0, first] : [first, second]
  const items = third === 0 ? Number.POSITIVE_INFINITY : (to - from) / third
  return items <= itemsMax ? null : `${name} makes at most ${itemsMax} items`
}

/** A width in a format string allocates memory just as `repeat` does. */
function formatProblem(name: string, arg: Node | undefined): string | null {
  const text = arg?.class === 'CONSTANT' ? (arg.value as Node).value : null
  if (typeof text !== 'string') return `${name} takes a plain text as its format`
  return /\d{4,}|\*|\{[^}]*\{/.test(text) ? `the widths of ${name} have at most 3 digits` : null
}

/** A literal number, with a sign or a cast; null for every computed expression. */
function numberOf(node: Node): number | null {
  if (node.class === 'CAST') return numberOf(node.child as Node)
  if (node.class === 'FUNCTION' && node.function_name === '-' && isUnary(node)) {
    const inner = numberOf((node.children as readonly Node[])[0]!)
    return inner === null ? null : -inner
  }
  if (node.class !== 'CONSTANT') return null
  const { value, type } = node.value as {
    value?: unknown
    type?: { id?: string; type_info?: Node }
  }
  if (typeof value !== 'number') return null
  const scale = type?.id === 'DECIMAL' ? Number(type.type_info?.scale ?? 0) : 0
  return value / 10 ** scale
}

function isUnary(node: Node): boolean {
  return (node.children as readonly Node[]).length === 1
}

function isTime(node: Node): boolean {
  const { cast_type: type } = node as { cast_type?: { id?: string } }
  return node.class === 'CAST' && /^(TIMESTAMP|DATE)/.test(type?.id ?? '')
}
