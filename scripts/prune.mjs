// Removes uWebSockets.js's binaries for other platforms from our own installation, about 200 MB.
// Run by `npm install` (prepare). Those for every Node on this platform stay. Nothing is removed
// from an installation that others share: a linked folder, or ours as somebody's dependency.
import { lstatSync, readdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = join(root, 'node_modules', 'uWebSockets.js')
const others = isOurs() ? binaries().filter((name) => !isOfThisPlatform(name)) : []
// On a platform without a binary of its own nothing here would be right.
if (others.length > 0 && binaries().some(isOfThisPlatform)) {
  const bytes = others.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
  for (const name of others) rmSync(join(folder, name))
  console.log(
    `removed ${others.length} binaries of uWebSockets.js for other platforms (${Math.round(bytes / 1e6)} MB); ` +
      'to get them back: rm -r node_modules/uWebSockets.js && npm install --ignore-scripts',
  )
}

function isOurs() {
  if (root.split(sep).includes('node_modules')) return false
  return [dirname(folder), folder].every((path) =>
    lstatSync(path, { throwIfNoEntry: false })?.isDirectory(),
  )
}

function binaries() {
  return readdirSync(folder).filter((name) => /^uws_.*\.node$/.test(name))
}

function isOfThisPlatform(name) {
  return name.startsWith(`uws_${process.platform}_${process.arch}_`)
}
