// Writes docs/CONFIG.md and docs/METERS.md from the declarations in the compiled code.
// `--check` writes nothing and exits 1 when a file is stale, naming it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const from = (path) => import(join(root, 'dist', 'src', path))

const pages = new Map()
const { configFields } = await from('config/config.js')
const { renderConfigDocs } = await from('config/docs.js')
pages.set('docs/CONFIG.md', renderConfigDocs(configFields))

if (existsSync(join(root, 'dist', 'src', 'topology.js'))) {
  const { Meters } = await from('telemetry/meters.js')
  const { renderMetersDocs } = await from('telemetry/meters-docs.js')
  const { declareAllMeters } = await from('topology.js')
  const meters = new Meters()
  declareAllMeters(meters)
  pages.set('docs/METERS.md', renderMetersDocs(meters.declared))
}

let stale = 0
for (const [path, body] of pages) {
  const file = join(root, path)
  const before = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (before === body) continue
  stale++
  if (process.argv.includes('--check')) console.error(`${path} is stale: run npm run docs`)
  else writeFileSync(file, body)
}
process.exitCode = stale > 0 && process.argv.includes('--check') ? 1 : 0
