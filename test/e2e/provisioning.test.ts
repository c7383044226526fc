// Provisioning at a running server: what a command reports is in force when it is printed.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Ran } from '../testkit/command.ts'
import { runHere } from '../testkit/run-here.ts'
import { littleTraffic, onlyMetrics, type Server, startServer } from '../testkit/server.ts'

describe('a change at a running server', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-provisioning-'))
  const file = (name: string, text: string) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return `--config=${path}`
  }
  let server: Server
  beforeAll(async () => {
    const plans = file('server.yaml', 'plans: { silver: { creditsPer30Days: 77 } }')
    server = await startServer({
      flags: [plans, '--metrics.auth=token', ...onlyMetrics, ...littleTraffic],
    })
  })
  afterAll(async () => {
    await server.dispose()
    rmSync(folder, { recursive: true, force: true })
  })

  const run = (...words: string[]): Promise<Ran> => runHere(...words, '--data', server.data)
  const add = async (label: string, ...more: string[]) => {
    const ran = await run('subscription', 'add', label, '--product', 'bundle', ...more, '--json')
    return ran.code === 0 ? (ran.json().token as string) : ran.stderr
  }
  const statusWith = async (token: string) =>
    (await fetch(`${server.url('metrics')}/v1/status`, { headers: { 'x-token': token } })).status

  test('is in force when it is reported, fifty times of fifty', async () => {
    const statuses: number[] = []
    for (let count = 0; count < 50; count++) statuses.push(await statusWith(await add(`n${count}`)))
    expect(statuses).toEqual(Array(50).fill(200))
  })

  test('holds for rotation, suspension, resumption and end', async () => {
    const token = await add('moved')
    const rotated = await run('token', 'rotate', 'moved', '--yes', '--json')
    const fresh = rotated.json().token as string
    expect([await statusWith(token), await statusWith(fresh)]).toEqual([401, 200])
    const seen: number[] = []
    for (const verb of ['suspend', 'resume', 'end']) {
      expect((await run('subscription', verb, 'moved', '--yes')).code).toBe(0)
      seen.push(await statusWith(fresh))
    }
    expect(seen).toEqual([401, 200, 401])
  })

  test('takes the plans of the server, whatever the command was given', async () => {
    const gold = file('command.yaml', 'plans: { gold: { creditsPer30Days: 5 } }')
    expect(await add('golden', '--plan', 'gold', gold)).toContain(
      'the running server has no plan \\"gold\\"; its plans are standard, unlimited, silver',
    )
    expect(await statusWith(await add('silvery', '--plan', 'silver'))).toBe(200)
    const set = await run('subscription', 'set', 'silvery', '--plan', 'gold', gold)
    expect([set.code, set.stderr]).toEqual([1, expect.stringContaining('has no plan "gold"')])
    expect((await run('usage', 'silvery')).stdout).toMatch(/credits: +0 of 77\n/)
  })

  test('usage names a plan that no longer exists, and the one in force', async () => {
    await server.stop()
    const usage = await run('usage', 'silvery')
    expect(usage.stdout).toMatch(/plan: +silver \(unknown plan: standard is in force\)/)
    expect(usage.stdout).toMatch(/credits: +0 of 50000000\n/)
  })
})
