import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { Fault } from '../../../../src/base/errors.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Supervisor } from '../../../../src/base/threads/supervisor.ts'
import { until } from '../../../testkit/until.ts'

const backoff = { firstMs: 1, lastMs: 1, deathsMax: 3, healthyMs: 60_000 }
let supervisor: Supervisor | null = null
afterEach(() => supervisor?.stop())

/** One that runs once, dies, and then fails to start as often and in the way that a test sets. */
async function supervise(failures: number, fault: Error) {
  const seen = { launches: 0, downs: 0, die: (_how: string) => {} }
  supervisor = new Supervisor(
    {
      name: 'component',
      backoff,
      async launch() {
        seen.launches += 1
        if (seen.launches > 1 && seen.launches <= 1 + failures) throw fault
        let end = () => {}
        const ended = new Promise<string>((resolve) => {
          seen.die = resolve
          end = () => resolve('stopped')
        })
        return { ended, stop: async () => end() }
      },
    },
    { clock: systemClock, log: silentLog, onDown: () => seen.downs++ },
  )
  await supervisor.start()
  seen.die('died')
  return seen
}

describe('a supervisor', () => {
  it('retries for as long as the machine lacks resources for the launch', async () => {
    const noRoom = new Fault('child-start', 'spawn EMFILE', { retryable: true })
    const seen = await supervise(20, noRoom)
    await until(() => supervisor?.isRunning === true, 'the start that works')
    expect(seen).toMatchObject({ launches: 22, downs: 0 })
  })

  it('stops after three starts that fail for another reason', async () => {
    const seen = await supervise(20, new Fault('child-start', 'it is broken'))
    await until(() => seen.downs === 1, 'the end')
    expect(seen.launches).toBe(3)
  })
})
