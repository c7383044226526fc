// The TPU Sender end to end: the built server, kit as the client, and the operator's reports.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
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
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { type Server, sluiceHere, startServer } from '../testkit/server.ts'
import { newAddress, newPayer, sign, transfer } from '../testkit/tipped.ts'
import { openSocket } from '../testkit/try-endpoint.ts'
import { until } from '../testkit/until.ts'

let server: Server
const folder = mkdtempSync(join(tmpdir(), 'sluice-tpu-'))
const file = join(folder, 'sluice.yaml')
const accounts = [newAddress(), newAddress()]

beforeAll(async () => {
  writeFileSync(file, `tpu:\n  tipAccounts: [${accounts.join(', ')}]\n`)
  const flags = ['--metrics.enabled=false', '--chain.traffic=0']
  server = await startServer({ flags: [`--config=${file}`, ...flags] })
})
afterAll(async () => {
  await server.dispose()
  rmSync(folder, { recursive: true, force: true })
})

/** Receives one transaction on both streams of the bundle. */
async function watch(signature: string, payer: string) {
  const websocket: object[] = []
  const grpc: string[] = []
  const socket = await openSocket(server, server.token)
  const params = [signature, { commitment: 'processed' }]
  const asked = new Promise<void>((resolve) => {
    socket.on('message', (data) => {
      const message = JSON.parse(String(data)) as { id?: number }
      if (message.id === 1) resolve()
      else websocket.push(message)
    })
  })
  socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'signatureSubscribe', params }))
  await asked
  const { host, port } = server.doors.grpc!
  // biome-ignore lint/suspicious/noExplicitAny: the client's generated types add nothing here.
  const Yellowstone = createRequire(import.meta.url)('@triton-one/yellowstone-grpc').default as any
  const stream = await new Yellowstone(`http://${host}:${port}`, server.token, {}).subscribe()
  let isReady = false
  stream.on('error', () => {})
  stream.on('data', (update: { pong?: object; transaction?: { transaction: GrpcInfo } }) => {
    if (update.pong) isReady = true
    if (update.transaction) grpc.push(encodeBase58(update.transaction.transaction.signature))
  })
  const nothing = { accounts: {}, slots: {}, transactions: {}, transactionsStatus: {}, blocks: {} }
  const empty = { ...nothing, blocksMeta: {}, entry: {}, accountsDataSlice: [] }
  const mine = { accountInclude: [payer], accountExclude: [], accountRequired: [] }
  stream.write({ ...empty, transactions: { mine }, commitment: 0 })
  stream.write({ ...empty, ping: { id: 1 } })
  await until(() => isReady, 'a pong')
  return {
    websocket,
    grpc,
    close() {
      socket.close()
      stream.cancel?.()
    },
  }
}

interface GrpcInfo {
  readonly signature: Uint8Array
}

describe('TPU Sender', () => {
  test('sends a tipped transaction without a token, and rpc, websocket and grpc show it', async () => {
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
    const bytes = await tip(1_000_000n)
    const wire = Buffer.from(bytes).toString('base64')
    const streams = await watch(encodeBase58(bytes, 1, 65), payer.address)
    const signature: Signature = await tpu
      .sendTransaction(wire as never, { encoding: 'base64', skipPreflight: true })
      .send()
    const shown = async () => {
      const { value: found } = await rpc.getSignatureStatuses([signature]).send()
      return found[0]?.err === null && found[0] !== null
    }
    await until(shown, 'rpc to return it')
    await until(() => streams.websocket.length > 0, 'websocket to send it')
    await until(() => streams.grpc.includes(signature), 'grpc to send it')
    expect(streams.websocket[0]).toMatchObject({ params: { result: { value: { err: null } } } })
    streams.close()
    const paid = await rpc.getBalance(accounts[1]!, { commitment: 'processed' }).send()
    expect(paid.value).toBe(1_000_000n)
    const low = Buffer.from(await tip(999_999n)).toString('base64')
    await expect(
      tpu.sendTransaction(low as never, { encoding: 'base64', skipPreflight: true }).send(),
    ).rejects.toMatchObject({ context: { __code: -32602 } })
    // It has landed once its block is confirmed.
    let tips: { landed?: number } = {}
    await until(async () => {
      tips = JSON.parse((await sluiceHere(server.data, 'tips', '--output=json')).stdout)
      return tips.landed === 1
    }, 'it to land')
    expect(tips).toMatchObject({
      accepted: 1,
      landed: 1,
      tipLamports: 1_000_000,
      rejected: { TIP_TOO_LOW: 1 },
      last: [{ signature, outcome: 'landed', feePayer: payer.address, tipAccount: accounts[1] }],
    })
    expect((await sluiceHere(server.data, 'tips')).stdout).toContain('TIP_TOO_LOW 1')
  })

  test('reloads tip accounts when the file changes', async () => {
    expect((await sluiceHere(server.data, 'tip-accounts')).stdout).toBe(`${accounts.join('\n')}\n`)
    const next = newAddress()
    writeFileSync(file, `tpu:\n  tipAccounts: [${next}]\n`)
    const served = async () =>
      ((await (await fetch(`${server.url('tpu')}/tip-accounts`)).json()) as object) ?? {}
    await until(
      async () => JSON.stringify(await served()) === JSON.stringify({ tipAccounts: [next] }),
      'the new tip account',
    )
    writeFileSync(file, 'tpu:\n  tipAccounts: [nonsense]\n')
    await until(() => server.stderr().includes('configuration reload failed'), 'the warning')
    expect(await served()).toEqual({ tipAccounts: [next] })
  })
})
