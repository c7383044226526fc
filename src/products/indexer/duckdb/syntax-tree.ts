// Looks through the tree that DuckDB makes of a statement: which tables and functions it names,
// and whether its numbers are sane. Thread: main of a query process. Pure.
// The tree is `json_serialize_sql`'s: the very parser that runs the statement made it.
import { nearest } from '../../../base/nearest.ts'
import { type Checked, checked, fail } from '../exceptions.ts'
import { allowedFunctions, allowedTableFunctions } from './allowed-functions.ts'
import { boundsProblem } from './bounds.ts'

export interface TreeRules {
  /** Names by schema: '' for those that need none. In lower case. */
  readonly tables: Readonly<Record<string, ReadonlySet<string>>>
  /** Of ours, beside DuckDB's. In lower case. */
  readonly macros: ReadonlySet<string>
  /** Names of DuckDB's own tables and views, which no WITH may take either. */
  readonly reserved: ReadonlySet<string>
}

export type TreeNode = { readonly [key: string]: unknown }

/** The tables that the statement reads, as `schema.name` or `name`; or what is wrong with it. */
export function checkTree(tree: unknown, rules: TreeRules): Checked<ReadonlySet<string>> {
  const nodes = nodesOf(tree)
  const withNames = new Set<string>()
  for (const name of nodes.flatMap(withNamesOf)) {
    // A name of WITH is known in its own query alone, but counts everywhere here: so it must not
    // open the way to anything that has the same name outside.
    if (rules.reserved.has(name) || !/^[a-z_]\w*$/i.test(name))
      return fail('BAD_ARGUMENTS', `WITH cannot define ${quoted(name)}: take another name`)
    withNames.add(name)
  }
  const tables = new Set<string>()
  for (const node of nodes) {
    const problem =
      node.type === 'BASE_TABLE'
        ? tableProblem(node, { rules, withNames, tables })
        : node.type === 'TABLE_FUNCTION'
          ? tableFunctionProblem(node)
          : node.type === 'SHOW_REF'
            ? showProblem(node)
            : (functionProblem(node, rules) ?? parameterProblem(node))
    if (problem !== null) return problem
  }
  return checked(tables)
}

/** Of a name that is not known, in a message and in the search for its neighbour. */
const nameCharsMax = 64

type Problem = ReturnType<typeof fail> | null

/** Every object of the tree, by hand: a deep one must not overflow the stack. */
function nodesOf(tree: unknown): readonly TreeNode[] {
  const found: TreeNode[] = []
  const left: unknown[] = [tree]
  while (left.length > 0) {
    const value = left.pop()
    if (typeof value !== 'object' || value === null) continue
    if (!Array.isArray(value)) found.push(value as TreeNode)
    for (const inner of Object.values(value)) left.push(inner)
  }
  return found
}

function withNamesOf(node: TreeNode): string[] {
  const map = (node.cte_map as { map?: readonly { key: string }[] } | undefined)?.map ?? []
  return map.map((entry) => entry.key.toLowerCase())
}

function tableProblem(
  node: TreeNode,
  known: { rules: TreeRules; withNames: ReadonlySet<string>; tables: Set<string> },
): Problem {
  const name = String(node.table_name).toLowerCase()
  const schema = String(node.schema_name).toLowerCase()
  const { rules, withNames, tables } = known
  if (node.catalog_name === '' && schema === '' && withNames.has(name)) {
    // It may be one of ours all the same, outside the query that has the WITH.
    if (rules.tables['']?.has(name) === true) tables.add(name)
    return null
  }
  const names = Object.hasOwn(rules.tables, schema) ? rules.tables[schema]! : new Set<string>()
  if (node.catalog_name === '' && names.has(name)) {
    tables.add(schema === '' ? name : `${schema}.${name}`)
    return null
  }
  const near = nearest(name.slice(0, nameCharsMax), rules.tables['']!)
  const hint = near === null ? '' : `; the nearest is ${near}`
  return fail('UNKNOWN_TABLE', `there is no table ${quoted(String(node.table_name))}${hint}`)
}

function tableFunctionProblem(node: TreeNode): Problem {
  const { function_name: name } = node.function as TreeNode
  if (allowedTableFunctions.has(String(name).toLowerCase())) return null
  return unknownFunction(String(name), allowedTableFunctions)
}

/** DESCRIBE and SUMMARIZE carry a query, which is looked through like any other. */
function showProblem(node: TreeNode): Problem {
  return node.query === null ? fail('READONLY', 'SHOW is answered for TABLES and COLUMNS') : null
}

function functionProblem(node: TreeNode, rules: TreeRules): Problem {
  const isCall = node.class === 'FUNCTION' || node.class === 'WINDOW'
  if (!isCall || typeof node.function_name !== 'string') return null
  const name = node.function_name.toLowerCase()
  const isPlain = node.catalog === '' && ['', 'main', 'pg_catalog'].includes(String(node.schema))
  const isKnown = allowedFunctions.has(name) || rules.macros.has(name)
  if (!isPlain || !isKnown)
    return unknownFunction(node.function_name, [...allowedFunctions, ...rules.macros])
  const problem = boundsProblem(name, (node.children ?? []) as readonly TreeNode[])
  return problem === null ? null : fail('BAD_ARGUMENTS', problem)
}

/** `?` and `$1` have nobody to fill them. */
function parameterProblem(node: TreeNode): Problem {
  if (node.class !== 'PARAMETER') return null
  return fail('SYNTAX_ERROR', 'values are asked for as {name:Type} and given as param_name')
}

function unknownFunction(name: string, known: Iterable<string>) {
  const near = nearest(
    name.slice(0, nameCharsMax),
    [...known].filter((one) => /^\w+$/.test(one)),
  )
  const hint = near === null ? '' : `; the nearest is ${near}`
  const message = `there is no function ${quoted(name)}${hint}`
  const error = { code: 46, name: 'UNKNOWN_FUNCTION', message }
  return { ok: false, error } as const
}

/** For a message: no line breaks, not endless. */
function quoted(name: string): string {
  return `'${name.replaceAll(/[^\w.$ -]/g, '?').slice(0, nameCharsMax)}'`
}
