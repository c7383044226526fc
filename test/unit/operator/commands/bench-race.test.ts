import { describe, expect, test } from 'vitest'
import { parseArgs } from '../../../../src/operator/commands/args.ts'
import { benchRaceVerb } from '../../../../src/operator/commands/bench.ts'
import type { Call } from '../../../../src/operator/commands/verb.ts'

describe('sluice bench race refuses a race that', () => {
  const refusals: readonly [string, readonly string[], string][] = [
    ['has one endpoint', ['--a=rpc=9'], 'a race needs two endpoints or more: --a and --b'],
    [
      'has a kind that cannot show the unit',
      ['--a=geyser=9', '--b=rpc=9', '--unit=transaction'],
      'b rpc 127.0.0.1:9 cannot show --unit transaction: rpc shows slot',
    ],
    [
      'has kinds without a common unit',
      ['--a=metrics=9', '--b=rpc=9'],
      'no unit is shown by all endpoints: metrics (block), rpc (slot)',
    ],
    [
      'asks for account writes without an account',
      ['--a=geyser=9', '--b=websocket=9', '--unit=account'],
      '--unit account needs --account, the account whose writes count',
    ],
    [
      'names an account that is none',
      ['--a=geyser=9', '--b=websocket=9', '--account=x'],
      '--account x is not the address of an account',
    ],
    ['counts no time', ['--a=rpc=9', '--b=rpc=9', '--for=0s'], '--for must be longer than 0s'],
  ]
  test.each(refusals)('%s', async (_, words, message) => {
    const parsed = parseArgs(benchRaceVerb, words)
    if (!parsed.ok) throw new Error(parsed.refusal.message)
    // Reason for the cast: the verb reads nothing else of the call.
    const outcome = await benchRaceVerb.run(parsed.value as unknown as Call)
    expect(outcome).toMatchObject({ ok: false, refusal: { kind: 'invalid', message } })
  })
})
