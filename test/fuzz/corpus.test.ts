// Every input that the fuzzer has kept, and every one that once found a defect, run once more.
import { statSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { corpusFile, readCorpus } from './corpus.ts'
import { runTarget } from './fuzzer.ts'
import { loadTarget, targetNames } from './targets.ts'

const corpusBytesMax = 400 * 1024

describe('the corpus of the fuzzer', () => {
  test.each(targetNames)('%s: the property holds for each input', async (name) => {
    const target = await loadTarget(name)
    const { defects, inputs } = readCorpus(name)
    expect(inputs.length).toBeGreaterThan(0)
    for (const input of [...target.seeds(), ...defects, ...inputs])
      await runTarget(target, Buffer.from(input)).catch((error: unknown) => {
        const bytes = Buffer.from(input).toString('base64')
        throw new Error(`${name} with ${bytes}`, { cause: error })
      })
    await target.stop?.()
  })

  test('is small', () => {
    const bytes = targetNames.reduce((sum, name) => sum + statSync(corpusFile(name)).size, 0)
    expect(bytes).toBeLessThan(corpusBytesMax)
  })
})
