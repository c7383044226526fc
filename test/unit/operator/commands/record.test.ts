// `sluice record` where the server that recorded is not the one that answers.
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { askOperator } from '../../../../src/base/transport/unix-socket.ts'
import { recordVerbs } from '../../../../src/operator/commands/record.ts'
import type { Call } from '../../../../src/operator/commands/verb.ts'

vi.mock('../../../../src/base/transport/unix-socket.ts', () => ({ askOperator: vi.fn() }))

it.each([null, { path: '/another.rec', isOver: false }])(
  'does not wait for a server that was started meanwhile and records %j',
  async (state) => {
    const path = join('/nowhere', 'a.rec')
    vi.mocked(askOperator).mockImplementation(async (_data, question) => {
      return { ok: true, value: question === 'record' ? { path, isOver: false } : state }
    })
    const [record] = recordVerbs
    const call = {
      flags: new Map([['out', [path]]]),
      positionals: [],
      loaded: { config: { data: '/nowhere' } },
    } as unknown as Call
    const reported = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
    expect(await record!.run(call)).toMatchObject({ ok: false, refusal: { kind: 'not-found' } })
    expect(reported).toHaveBeenLastCalledWith(expect.stringContaining('the server is gone'))
    reported.mockRestore()
  },
)
