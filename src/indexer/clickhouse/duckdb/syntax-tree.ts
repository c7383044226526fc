// Checks DuckDB's syntax tree of a statement: the tables and functions it names, and the bounds
// of its arguments. Thread: main of a query process. Pure.
// The tree comes from `json_serialize_sql`, so from the parser that also runs the statement.
import { nearest } from '../../../base/nearest.ts'
import { type Checked, checked, fail } from '../exceptions.ts'
import { allowedFunctions, allowedTableFunctions } from './allowed-functions.ts'
import { boundsProblem } from './bounds.ts'

export interface TreeRules {
  /** Table names by schema: '' for unqualified names. In lower case. */
  readonly tables: Readonly<Record<string, ReadonlySet<string>>>
  /** Our own macros, in addition to DuckDB's functions. In lower case. */
  readonly macros: ReadonlySet<string>
  /** Names of DuckDB's internal tables and views, which WITH may not define either. */
  readonly reserved: ReadonlySet<string>
}

export type TreeNode = { readonly [key: string]: unknown }

/** The tables that the statement reads, as `schema.name` or `name`; or an error. */
export function checkTree(tree: unknown, rules: TreeRules): Checked<ReadonlySet<string>> {
  const nodes = nodesOf(tree)
  const withNames = new Set<string>()
  for (const name of nodes.flatMap(withNamesOf)) {
    // A WITH name is valid only in its own query, but is accepted everywhere here: so it must not
    // give access to anything that has the same name outside.
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

/** Longest prefix of an unknown name in a message and in the search for the nearest name. */
const nameCharsMax = 64

type Problem = ReturnType<typeof fail> | null

/** Every object of the tree, iteratively: a deep tree must not overflow the stack. */
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
    // It may also be one of our tables, outside the query that has the WITH.
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

/** DESCRIBE and SUMMARIZE contain a query, which is checked like any other. */
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

/** `?` and `$1` are refused: there is no way to pass their values. */
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

/** A name for a message: without line breaks, truncated. */
function quoted(name: string): string {
  return `'${name.replaceAll(/[^\w.$ -]/g, '?').slice(0, nameCharsMax)}'`
}
