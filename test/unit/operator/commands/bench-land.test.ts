import { describe, expect, test } from 'vitest'
import { parseArgs } from '../../../../src/operator/commands/args.ts'
import { benchLandVerb } from '../../../../src/operator/commands/bench.ts'
import type { Call } from '../../../../src/operator/commands/verb.ts'

const local = ['--to=127.0.0.1:9', '--watch=geyser=127.0.0.1:9']

describe('sluice bench land refuses a test that', () => {
  const refusals: readonly [string, readonly string[], string][] = [
    ['has no route', ['--watch=geyser=9'], '--to is missing, such as --to http://127.0.0.1:8901'],
    [
      'watches nothing',
      ['--to=127.0.0.1:9'],
      '--watch is missing, such as --watch geyser=http://127.0.0.1:10010',
    ],
    [
      'leaves this machine without a limit',
      ['--to=127.0.0.1:9,https://tpu.example.com/k?api-key=secret', '--watch=geyser=9'],
      '--spend-max is missing: 2 tpu tpu.example.com may be a real cluster, give a limit in SOL',
    ],
    [
      'watches another machine without a limit',
      ['--to=127.0.0.1:9', '--watch=geyser=grpc.example.com:10000'],
      '--spend-max is missing: geyser grpc.example.com:10000 may be a real cluster, ' +
        'give a limit in SOL',
    ],
    [
      'leaves this machine without a wallet',
      ['--to=https://tpu.example.com', '--watch=geyser=9', '--spend-max=0.1'],
      '--keypair is missing: 1 tpu tpu.example.com is not on this machine, and gives no airdrop',
    ],
    [
      'has a limit that is none',
      [...local, '--spend-max=much'],
      '--spend-max must be an amount of SOL, such as 1000 or 0.5',
    ],
    [
      'has a rate beyond the bound',
      [...local, '--rate=5000'],
      '--rate is transactions per second, such as 5, at most 1000',
    ],
    [
      'names a tip account that is none',
      [...local, '--tip-account=x'],
      '--tip-account x is not the address of an account',
    ],
    ['has a wallet file that is none', [...local, '--keypair=/x'], '--keypair: /x cannot be read'],
  ]
  test.each(refusals)('%s', async (_, words, message) => {
    const parsed = parseArgs(benchLandVerb, words)
    if (!parsed.ok) throw new Error(parsed.refusal.message)
    // Reason for the cast: the verb reads nothing else of the call.
    const outcome = await benchLandVerb.run(parsed.value as unknown as Call)
    expect(outcome).toMatchObject({ ok: false, refusal: { kind: 'invalid', message } })
  })
})
