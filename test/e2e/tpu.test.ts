// The TPU Sender as a customer meets it: the built server, kit as the client, and what the
// operator sees.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createDefaultRpcTransport,
  createSolanaRpc,
  createSolanaRpcFromTransport,
  lamports,
  type Signature,
} from '@solana/kit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Server, sluice, startServer } from '../support/server.ts'
import { newAddress, newPayer, sign, transfer } from '../support/tipped.ts'
import { until } from '../support/until.ts'

let server: Server
const folder = mkdtempSync(join(tmpdir(), 'sluice-tpu-'))
const file = join(folder, 'sluice.yaml')
const accounts = [newAddress(), newAddress()]

beforeAll(async () => {
  writeFileSync(file, `tpu:\n  tipAccounts: [${accounts.join(', ')}]\n`)
  server = await startServer({ flags: [`--config=${file}`] })
})
afterAll(async () => {
  await server.dispose()
  rmSync(folder, { recursive: true, force: true })
})

describe('TPU Sender', () => {
  test('sends a tipped transaction without a token, and rpc shows it', async () => {
    const payer = await newPayer()
    const rpc = createSolanaRpcFromTransport(
      createDefaultRpcTransport({
        url: server.url('rpc'),
        headers: { 'x-token': server.token } as never,
      }),
    )
    const tpu = createSolanaRpc(server.url('tpu'))
    await rpc.requestAirdrop(payer.address, lamports(5_000_000_000n)).send()
    const { value } = await rpc.getLatestBlockhash({ commitment: 'processed' }).send()
    const tip = (amount: bigint) =>
      sign(payer, [transfer({ from: payer, to: accounts[1]!, lamports: amount })], value)
    const wire = Buffer.from(await tip(1_000_000n)).toString('base64')
    const signature: Signature = await tpu
      .sendTransaction(wire as never, { encoding: 'base64', skipPreflight: true })
      .send()
    const shown = async () => {
      const { value: found } = await rpc.getSignatureStatuses([signature]).send()
      return found[0]?.err === null && found[0] !== null
    }
    await until(shown, 'rpc to know it', 20_000)
    const paid = await rpc.getBalance(accounts[1]!, { commitment: 'processed' }).send()
    expect(paid.value).toBe(1_000_000n)
    const low = Buffer.from(await tip(999_999n)).toString('base64')
    await expect(
      tpu.sendTransaction(low as never, { encoding: 'base64', skipPreflight: true }).send(),
    ).rejects.toMatchObject({ context: { __code: -32602 } })
    const told = await sluice(server.data, 'tips', '--output=json')
    expect(JSON.parse(told.stdout)).toMatchObject({
      accepted: 1,
      landed: 1,
      tipLamports: 1_000_000,
      rejected: { TIP_TOO_LOW: 1 },
      last: [{ signature, outcome: 'landed', feePayer: payer.address, tipAccount: accounts[1] }],
    })
    expect((await sluice(server.data, 'tips')).stdout).toContain('TIP_TOO_LOW 1')
  })

  test('takes other tip accounts when the file changes', async () => {
    expect((await sluice(server.data, 'tip-accounts')).stdout).toBe(`${accounts.join('\n')}\n`)
    const next = newAddress()
    writeFileSync(file, `tpu:\n  tipAccounts: [${next}]\n`)
    const told = async () =>
      ((await (await fetch(`${server.url('tpu')}/tip-accounts`)).json()) as object) ?? {}
    await until(
      async () => JSON.stringify(await told()) === JSON.stringify({ tipAccounts: [next] }),
      'the new tip account',
    )
    writeFileSync(file, 'tpu:\n  tipAccounts: [nonsense]\n')
    await until(() => server.stderr().includes('is not taken'), 'the complaint')
    expect(await told()).toEqual({ tipAccounts: [next] })
  })
})
