// Bundles the live pages (src/live) for the metrics endpoint: of each its HTML, one script, one
// style, brotli and gzip copies of both, and the licences of what the scripts contain.
// Run by build.mjs. Names carry a hash of the content, so that browsers may cache them for good.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'

/** Packages that the scripts may contain; those that they do are in THIRD-PARTY.txt. */
const allowed = ['uplot']

/** Each page by its HTML, with its script and its styles. */
const pages = {
  page: { script: 'main.ts', styles: ['style.css'] },
  solana: { script: 'solana.ts', styles: ['style.css', 'solana.css'] },
}

export async function bundleLive(root, folder) {
  const source = join(root, 'src', 'live')
  const packages = new Set()
  for (const [name, page] of Object.entries(pages)) {
    const { code, packages: found } = await bundleScript(join(source, page.script))
    for (const one of found) packages.add(one)
    const styles = page.styles.map((file) => readFileSync(join(source, file), 'utf8'))
    if (found.includes('uplot')) styles.unshift(plotStyle(root))
    const script = write(folder, 'js', code)
    const css = write(folder, 'css', squeeze(styles.join('\n')))
    const html = readFileSync(join(source, `${name}.html`), 'utf8')
      .replace('app.js', script)
      .replace('app.css', css)
      .replace(/\n\s*/g, '\n')
    writeFileSync(join(folder, `${name}.html`), html)
  }
  writeFileSync(join(folder, 'THIRD-PARTY.txt'), licences(root, [...packages]))
}

/** The style of uPlot without title and legend, which no chart here has, and its fonts. */
function plotStyle(root) {
  const path = join(root, 'node_modules', 'uplot', 'dist', 'uPlot.min.css')
  return readFileSync(path, 'utf8')
    .replace(/[^{}]*\.u-(title|legend|inline|series)[^{}]*\{[^{}]*\}/g, '')
    .replace(/font-family:[^;]*;/, '')
}

async function bundleScript(input) {
  const bundle = await rolldown({ input, platform: 'browser', logLevel: 'warn' })
  const { output } = await bundle.generate({ format: 'esm', minify: true })
  await bundle.close()
  const modules = output.flatMap((chunk) => chunk.moduleIds ?? [])
  const packages = [...new Set(modules.map(packageOf))].filter((name) => name !== null)
  const unknown = packages.filter((name) => !allowed.includes(name))
  if (output.length !== 1 || unknown.length > 0)
    throw new Error(`a live page must be one script of known packages: ${unknown.join(', ')}`)
  return { code: output[0].code, packages: packages.sort().reverse() }
}

function packageOf(path) {
  return /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? null
}

/** Writes the file and its compressed copies; returns its name. */
function write(folder, kind, text) {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 12)
  const name = `app-${hash}.${kind}`
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 18 }
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, name), text)
  writeFileSync(join(folder, `${name}.br`), brotliCompressSync(text, { params }))
  writeFileSync(join(folder, `${name}.gz`), gzipSync(text, { level: 9 }))
  return name
}

/** Comments and line breaks of a style; it has no strings that contain either. */
function squeeze(css) {
  return css
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};,]) ?/g, '$1')
    .replace(/: /g, ':')
    .replace(/;}/g, '}')
}

function licences(root, packages) {
  const parts = packages.map((name) => {
    const folder = join(root, 'node_modules', name)
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const text = readFileSync(join(folder, 'LICENSE'), 'utf8').trim()
    return `${name} ${version} (${license})\n\n${text}\n`
  })
  return `The scripts of the live pages contain these packages.\n\n${parts.join('\n---\n\n')}`
}
