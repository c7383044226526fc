// Draws the topology for docs/DESIGN.md: a line per component, its threads, processes and bounds
// below it, and a table of what restarts how.
import type { Topology } from './lifecycle.ts'

export function drawTopology(topology: Topology): string {
  const rows = Object.entries(topology)
  const lines = rows.flatMap(([name, { kind, does, reads, writes = [], owns = [] }]) => [
    `${name.padEnd(15)}${kind.padEnd(10)}${does}`,
    ...(reads.length === 0 ? [] : [`${' '.repeat(15)}◄─ ${reads.join(', ')}`]),
    ...(writes.length === 0 ? [] : [`${' '.repeat(15)}─► ${writes.join(', ')}`]),
    ...owns.map((owned) => `${' '.repeat(15)}${owned.kind} ${owned.name}: ${owned.bound}`),
  ])
  const restarts = rows.flatMap(([, { owns = [] }]) =>
    owns.flatMap(({ kind, name, restart }) =>
      restart === undefined ? [] : [`| ${kind} \`${name}\` | ${restart} |`],
    ),
  )
  return ['```', ...lines, '```', '', '| dies | what happens |', '|---|---|', ...restarts, ''].join(
    '\n',
  )
}
