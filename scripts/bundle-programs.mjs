// Bundles what starts as a process or a thread: the command and the entries in workers/, over the
// files that tsc wrote for them. A start then reads tens of files instead of hundreds; the other
// compiled files stay for those who import one. Packages are loaded from node_modules.
// Run by build.mjs.
import { readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { rolldown } from 'rolldown'

export async function bundlePrograms(root, dist) {
  const workers = readdirSync(join(root, 'workers')).map((name) => `workers/${name.slice(0, -3)}`)
  const bundle = await rolldown({
    input: Object.fromEntries(
      ['src/main', ...workers].map((name) => [name, join(root, `${name}.ts`)]),
    ),
    platform: 'node',
    logLevel: 'warn',
    external: (id) => !/^[./]/.test(id),
    plugins: [urlsOfSources(root)],
  })
  await bundle.write({
    dir: dist,
    format: 'esm',
    sourcemap: true,
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name]-[hash].js',
  })
  await bundle.close()
}

/** A module looks for files beside its own, not beside its bundle, which is one folder down. */
function urlsOfSources(root) {
  return {
    name: 'urls-of-sources',
    transform: {
      filter: { code: 'import.meta.url' },
      handler(code, id) {
        const path = relative(root, id).replace(/ts$/, 'js')
        const url = `new URL('../${path}', import.meta.url).href`
        return { code: code.replaceAll('import.meta.url', url), map: null }
      },
    },
  }
}
