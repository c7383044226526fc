// Renders docs/METERS.md from the declared instruments. Thread: main. Pure.
// `npm run docs` calls it with a Meters instance on which every room has declared its own.
import type { Declared } from './meters.ts'

export function renderMetersDocs(declared: readonly Declared[]): string {
  const sorted = [...declared].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  const rows = sorted.map((meter) => {
    const labels = meter.labels.map((label) => `\`${label}\``).join(', ')
    const help = meter.help.replaceAll('|', '\\|')
    return `| \`${meter.name}\` | ${meter.kind} | ${labels} | ${help} |`
  })
  return `${INTRODUCTION}\n\n${[HEAD, RULE, ...rows].join('\n')}\n`
}

const HEAD = '| name | kind | labels | meaning |'
const RULE = '| --- | --- | --- | --- |'

const INTRODUCTION = `# Meters

Made by \`npm run docs\` from the declarations in the code; do not edit.

\`GET /metrics\` on the metrics door gives these as Prometheus text 0.0.4, or as OpenMetrics 1.0
when the scraper asks for it. Times are in seconds, sizes in bytes. Labels come from closed sets and
never hold a token, a subscription or an address.`
