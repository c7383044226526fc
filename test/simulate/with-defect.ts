// Loader hooks of Node that put a defect into the modules of this process as they are loaded.
// Fails where a text that is to be replaced is not in its module once: it would change nothing.
// Thread: that of Node's loader hooks.
import type { InitializeHook, LoadHook } from 'node:module'
import type { Cut } from './defect.ts'

let cuts: readonly Cut[] = []

export const initialize: InitializeHook<readonly Cut[]> = (given) => {
  cuts = given
}

export const load: LoadHook = async (url, context, nextLoad) => {
  const loaded = await nextLoad(url, context)
  const own = cuts.filter(({ file }) => url.endsWith(`/dist/src/${file}.js`))
  return own.length === 0 ? loaded : { ...loaded, source: own.reduce(cut, String(loaded.source)) }
}

function cut(source: string, { file, text, put }: Cut): string {
  const [before, after, ...more] = source.split(text)
  if (after === undefined || more.length > 0) throw new Error(`${file} does not have ${text} once`)
  return `${before}${put}${after}`
}
