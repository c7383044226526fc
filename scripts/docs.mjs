// Writes docs/CONFIG.md, docs/METERS.md and the drawing in docs/DESIGN.md from the compiled code, and
// the Grafana board.
// `--check` writes nothing and exits 1 when a file is stale, naming it.
// The meters are those of a real start on free ports and an empty folder, so that no list of
// components has to be kept beside the topology.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { renderBoard } from './board.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const from = (path) => import(join(root, 'dist', 'src', path))

const { configFields, enabledEndpoints } = await from('operator/config/config.js')
const { renderConfigDocs } = await from('operator/config/docs.js')
const { renderMetersDocs } = await from('base/telemetry/meters-docs.js')
const { topology } = await from('topology.js')
const { drawTopology } = await from('operator/topology/lifecycle.js')

const design = readFileSync(join(root, 'docs', 'DESIGN.md'), 'utf8')
const [begin, end] = ['<!-- topology -->\n', '<!-- /topology -->']
const drawn = `${begin}${drawTopology(topology)}${end}`

const pages = new Map([
  ['docs/CONFIG.md', renderConfigDocs(configFields)],
  ['docs/METERS.md', renderMetersDocs(...(await declaredMeters()))],
  ['dashboards/grafana.json', renderBoard()],
  ['docs/DESIGN.md', design.replace(/<!-- topology -->\n[\s\S]*<!-- \/topology -->/, () => drawn)],
])

let stale = 0
for (const [path, body] of pages) {
  const file = join(root, path)
  const before = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (before === body) continue
  stale++
  if (process.argv.includes('--check')) console.error(`${path} is stale: run npm run docs`)
  else writeFileSync(file, body)
}
process.exit(stale > 0 && process.argv.includes('--check') ? 1 : 0)

async function declaredMeters() {
  const { loadConfig } = await from('operator/config/load.js')
  const { startTopology } = await from('operator/topology/service.js')
  const { systemClock } = await from('base/clock.js')
  const { silentLog } = await from('base/telemetry/log.js')
  const data = mkdtempSync(join(tmpdir(), 'sluice-docs-'))
  try {
    const { config: defaults } = await loadConfig({ env: {} })
    const ports = enabledEndpoints(defaults).map(({ name }) => ({
      key: `${name}.port`,
      value: '0',
    }))
    const { config } = await loadConfig({
      env: {},
      flags: [{ key: 'data', value: data }, ...ports],
    })
    const deps = { clock: systemClock, log: silentLog, version: '0', isFresh: true, exit() {} }
    const service = await startTopology(config, deps)
    const { meters, customerMeters } = service
    await service.stop()
    return [meters.declared, customerMeters.declared]
  } finally {
    rmSync(data, { recursive: true, force: true })
  }
}
