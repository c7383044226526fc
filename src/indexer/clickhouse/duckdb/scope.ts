// Finds what a name means in a query: a lambda's argument, an alias, a column.
import { nearest } from '../../../base/nearest.ts'
import type { Expr } from '../sql/ast.ts'
import { columnName } from '../sql/explain-syntax.ts'
import { SqlProblem } from '../sql/parser.ts'
import type { Typed } from './typing.ts'

/** A column of a table, a subquery or a join, with the SQL that reads it. */
export interface ScopeColumn extends Typed {
  readonly name: string
  /** A second name, which `*` does not show. */
  readonly otherName?: string
}

/** A table in FROM. */
export interface Source {
  /** Its alias, or its name without and with the database. */
  readonly names: readonly string[]
  readonly columns: readonly ScopeColumn[]
  /** Items of ARRAY JOIN: they hide columns of the same name. */
  readonly isItems?: boolean
}

export type Found =
  | { readonly kind: 'value'; readonly value: Typed; readonly rest: readonly string[] }
  | {
      readonly kind: 'alias'
      readonly of: Expr
      readonly name: string
      readonly scope: Scope
      readonly rest: readonly string[]
    }

/** A printed query with its columns, whose `sql` is their name in it. */
export interface Relation {
  readonly sql: string
  readonly columns: readonly ScopeColumn[]
}

export class Scope {
  readonly parent: Scope | null
  readonly sources: readonly Source[]
  /** Columns that USING merges, before all others. */
  readonly merged: ReadonlyMap<string, Typed>
  readonly aliases: ReadonlyMap<string, Expr>
  readonly locals: ReadonlyMap<string, Typed>
  readonly relations: ReadonlyMap<string, Relation>
  /** Aliases that are being printed: inside them the name is a column. */
  readonly expanding = new Set<string>()
  /** Values that replace whole expressions, by ClickHouse name: arrayJoin(), keys of ROLLUP. */
  readonly replaced = new Map<string, Typed>()

  constructor(
    parent: Scope | null,
    parts: Partial<Pick<Scope, 'sources' | 'merged' | 'aliases' | 'locals' | 'relations'>> = {},
  ) {
    this.parent = parent
    this.sources = parts.sources ?? []
    this.merged = parts.merged ?? new Map()
    this.aliases = parts.aliases ?? new Map()
    this.locals = parts.locals ?? new Map()
    this.relations = parts.relations ?? new Map()
  }

  /** What stands for the whole expression. */
  replacement(expr: Expr): Typed | null {
    const found = this.replaced.size === 0 ? undefined : this.replaced.get(columnName(expr))
    return found ?? this.parent?.replacement(expr) ?? null
  }

  relation(name: string): Relation | null {
    return this.relations.get(name) ?? this.parent?.relation(name) ?? null
  }

  /** The select that defines this alias, unless the alias is already being printed. */
  ownerOf(name: string, of: Expr): Scope | null {
    if (this.aliases.get(name) === of) return this.expanding.has(name) ? null : this
    return this.parent?.ownerOf(name, of) ?? null
  }

  /** Throws UNKNOWN_IDENTIFIER with the nearest name. */
  find(path: readonly string[]): Found {
    for (let scope: Scope | null = this; scope !== null; scope = scope.parent) {
      const found = scope.#own(path)
      if (found !== null) return found
    }
    throw this.#missing(path)
  }

  #own(path: readonly string[]): Found | null {
    const [first = '', ...rest] = path
    const local = this.locals.get(first)
    if (local !== undefined) return { kind: 'value', value: local, rest }
    const alias = this.aliases.get(first)
    if (alias !== undefined && !this.expanding.has(first))
      return { kind: 'alias', of: alias, name: first, scope: this, rest }
    const merged = this.merged.get(first)
    if (merged !== undefined) return { kind: 'value', value: merged, rest }
    return this.#qualified(path) ?? this.#column(path)
  }

  /** `t.a` and `db.t.a`. */
  #qualified(path: readonly string[]): Found | null {
    for (let length = Math.min(2, path.length - 1); length > 0; length--) {
      const name = path.slice(0, length).join('.')
      const source = this.sources.find(({ names }) => names.includes(name))
      const column = source?.columns.find((one) => isNamed(one, path[length]!))
      if (column !== undefined)
        return { kind: 'value', value: column, rest: path.slice(length + 1) }
    }
    return null
  }

  #column(path: readonly string[]): Found | null {
    for (let length = path.length; length > 0; length--) {
      const name = path.slice(0, length).join('.')
      for (const { columns } of this.sources) {
        const column = columns.find((one) => isNamed(one, name))
        if (column !== undefined) return { kind: 'value', value: column, rest: path.slice(length) }
      }
    }
    return null
  }

  #missing(path: readonly string[]): SqlProblem {
    const name = path.join('.')
    const known = new Set<string>()
    for (let scope: Scope | null = this; scope !== null; scope = scope.parent) {
      for (const alias of scope.aliases.keys()) known.add(alias)
      for (const { columns } of scope.sources) for (const one of columns) known.add(one.name)
    }
    const near = nearName(path.at(-1)!, known)
    const hint = near === null ? '' : `. Maybe you meant: ['${near}']`
    return new SqlProblem(
      'UNKNOWN_IDENTIFIER',
      `Unknown expression identifier \`${shown(name)}\`${hint}`,
    )
  }
}

export function isNamed({ name, otherName }: ScopeColumn, wanted: string): boolean {
  return name === wanted || otherName === wanted
}

/** The arguments of a call: `*` is every column of the only table. */
export function argumentsOf(args: readonly Expr[], scope: Scope): readonly Expr[] {
  return args.flatMap((arg): readonly Expr[] => {
    if (arg.kind !== 'star') return [arg]
    const isPlain = arg.pattern === null && arg.of.length + arg.except.length === 0
    const [source, other] = scope.sources
    if (!isPlain || arg.replace.length > 0 || source === undefined || other !== undefined)
      throw new SqlProblem('NOT_IMPLEMENTED', '* of several tables is no argument here')
    return source.columns.map(({ name }) => ({ kind: 'column', at: arg.at, path: [name] }))
  })
}

/** The name that was probably meant: at most one edit for every three letters. */
export function nearName(name: string, known: Iterable<string>): string | null {
  const word = name.slice(0, 64)
  return word.length < 3 ? null : nearest(word, known, Math.floor(word.length / 3))
}

/** A name for a message: without control characters, cut. */
export function shown(name: string): string {
  return name.replaceAll(/[^\w.$ -]/g, '?').slice(0, 64)
}
