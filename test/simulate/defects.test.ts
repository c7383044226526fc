// What a defect takes out is in the compiled modules, once: one that fits nowhere finds nothing.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../testkit/tree.ts'
import { defects } from './defects.ts'

test.each(defects)('what $name takes out is there', ({ cuts }) => {
  for (const { file, text } of cuts) {
    const source = readFileSync(join(root, 'dist', 'src', `${file}.js`), 'utf8')
    expect(source.split(text), text).toHaveLength(2)
  }
})
