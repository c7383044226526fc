// Detects the version and features of a ClickHouse server, once at start. Thread: main, writer
// process. Servers may be eight years old, and reject settings that they do not know.
import type { ClickhouseClient } from './client.ts'

export interface ServerFacts {
  readonly version: string
  /** Times with fractional seconds; absent before 20.1. */
  readonly hasDateTime64: boolean
  /** The type Bool; absent before 21.12. */
  readonly hasBool: boolean
  /** Names of the settings that the server knows. */
  readonly settings: ReadonlySet<string>
}

export async function readServerFacts(client: ClickhouseClient): Promise<ServerFacts> {
  const [version, functions, settings] = await Promise.all([
    client.rows<{ version: string }>('SELECT version() AS version'),
    client.rows<{ name: string }>(
      "SELECT name FROM system.functions WHERE name IN ('toDateTime64', 'toBool')",
    ),
    client.rows<{ name: string }>('SELECT name FROM system.settings'),
  ])
  const has = (name: string) => functions.some((one) => one.name === name)
  return {
    version: version[0]?.version ?? '',
    hasDateTime64: has('toDateTime64'),
    hasBool: has('toBool'),
    settings: new Set(settings.map(({ name }) => name)),
  }
}

/** Filters the settings to those that the server knows, in their order. */
export function known(
  facts: ServerFacts,
  settings: Readonly<Record<string, string | number>>,
): Record<string, string> {
  const found = Object.entries(settings).filter(([name]) => facts.settings.has(name))
  return Object.fromEntries(found.map(([name, value]) => [name, String(value)]))
}
