// Golden shapes: a file under test/golden/ has one example of an answer, and a test compares what
// the service sends now. A removed or renamed field, or a changed type, fails; an added one does not.
//
//   expectShape('metrics/status', await response.json())
//
// In a golden file a key that ends with `?` may be absent. An array's first element represents all
// of them; an empty one leaves elements open. Strings that look like hex must stay hex.
// SLUICE_TEST_GOLDEN=write writes files that are missing; present ones are only changed by hand.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../golden', import.meta.url))

/** Throws an error that lists every departure from `test/golden/<name>.json`. */
export function expectShape(name: string, value: unknown): void {
  const path = join(folder, `${name}.json`)
  if (!existsSync(path)) {
    if (process.env.SLUICE_TEST_GOLDEN !== 'write') throw new Error(`no golden file ${name}.json`)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`)
    return
  }
  const golden: unknown = JSON.parse(readFileSync(path, 'utf8'))
  const problems = shapeProblems(golden, value)
  if (problems.length > 0) throw new Error(`${name} changed its shape:\n  ${problems.join('\n  ')}`)
}

/** Where `value` departs from the example, as sentences. */
export function shapeProblems(golden: unknown, value: unknown, path = '$'): string[] {
  const [expected, found] = [typeName(golden), typeName(value)]
  if (expected !== found) return [`${path}: was ${expected}, is ${found}`]
  if (Array.isArray(golden) && Array.isArray(value)) {
    if (golden.length === 0) return []
    return value.flatMap((item, index) => shapeProblems(golden[0], item, `${path}[${index}]`))
  }
  if (expected === 'object') return objectProblems(golden as Shape, value as Shape, path)
  return []
}

type Shape = Record<string, unknown>

function objectProblems(golden: Shape, value: Shape, path: string): string[] {
  return Object.entries(golden).flatMap(([key, example]) => {
    const name = key.replace(/\?$/, '')
    if (Object.hasOwn(value, name)) return shapeProblems(example, value[name], `${path}.${name}`)
    return key.endsWith('?') ? [] : [`${path}.${name}: is gone`]
  })
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'string' && /^0x[0-9a-f]*$/.test(value)) return 'hex string'
  return typeof value
}
