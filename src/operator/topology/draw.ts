// Draws the topology for docs/DESIGN.md: a line per component, its threads, processes and bounds
// below it, and a table of what restarts how.
import type { Topology } from './lifecycle.ts'

export function drawTopology(topology: Topology): string {
  const rows = Object.entries(topology)
  const width = Math.max(...rows.map(([name]) => name.length)) + 1
  const indent = ' '.repeat(width)
  const lines = rows.flatMap(([name, { kind, does, reads, writes = [], owns = [] }]) => [
    `${name.padEnd(width)}${kind.padEnd(10)}${does}`,
    ...(reads.length === 0 ? [] : [`${indent}◄─ ${reads.join(', ')}`]),
    ...(writes.length === 0 ? [] : [`${indent}─► ${writes.join(', ')}`]),
    ...owns.map((owned) => `${indent}${owned.kind} ${owned.name}: ${owned.bound}`),
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
