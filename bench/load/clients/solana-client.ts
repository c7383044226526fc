// A customer of a server of its own: starts it, provisions a token, sends transfers and waits to
// hear of them. Thread: main of the bench process.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { WebSocket } from 'ws'
import { enabledDoors } from '../../../src/config/config.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { decodeBase58, encodeBase58 } from '../../../src/solana/base58.ts'
import { buildTransaction, transferInstruction } from '../../../src/solana/build.ts'
import { Keypair } from '../../../src/solana/keypair.ts'
import { packageRoot } from '../../../src/threads/entry.ts'

const main = join(packageRoot(), 'dist', 'src', 'main.js')
const startMsMax = 30_000
const blockhashMsMax = 2_000

export class SolanaClient {
  readonly socket: WebSocket
  readonly #from = new Keypair(Buffer.alloc(32, 1))
  readonly #to = new Keypair(Buffer.alloc(32, 2)).publicKey
  readonly #url: string
  readonly #token: string
  readonly #stop: () => Promise<void>
  #blockhash: Uint8Array = new Uint8Array(32)
  #blockhashMs = Number.NEGATIVE_INFINITY
  #lamports = 1_000_000n

  private constructor(parts: {
    socket: WebSocket
    url: string
    token: string
    stop: () => Promise<void>
  }) {
    this.socket = parts.socket
    this.#url = parts.url
    this.#token = parts.token
    this.#stop = parts.stop
  }

  static async start(): Promise<SolanaClient> {
    const data = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
    const loaded = await loadConfig({ env: {}, flags: [] })
    if (!loaded.ok) throw new Error('the defaults are no configuration')
    const words = enabledDoors(loaded.config).map(({ name }) => `--${name}.port=0`)
    const flags = [main, 'serve', `--data=${data}`, '--chain.traffic=0', ...words]
    const server = spawn(process.execPath, flags, { stdio: 'ignore' })
    const stop = async () => {
      const ended = new Promise((resolve) => server.once('exit', resolve))
      if (server.exitCode === null && server.kill()) await ended
      rmSync(data, { recursive: true, force: true })
    }
    const file = join(data, 'doors.json')
    const endMs = performance.now() + startMsMax
    while (!existsSync(file)) {
      if (performance.now() > endMs) throw new Error('the server does not start')
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const doors = JSON.parse(readFileSync(file, 'utf8'))
    const add = ['subscription', 'add', 'bench', '--product=bundle', '--plan=unlimited']
    const added = await promisify(execFile)(process.execPath, [
      ...[main, ...add, `--data=${data}`, '--output=json'],
    ])
    const { token } = JSON.parse(added.stdout)
    // The server knows it within a second.
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    const address = `ws://127.0.0.1:${doors.websocket.port}`
    const socket = new WebSocket(address, { headers: { 'x-token': token } })
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
    const url = `http://127.0.0.1:${doors.rpc.port}`
    const client = new SolanaClient({ socket, url, token, stop })
    for (const key of [client.#from.publicKey, client.#to])
      await client.call('requestAirdrop', encodeBase58(key), 1_000_000_000_000)
    return client
  }

  async close(): Promise<void> {
    this.socket.terminate()
    await this.#stop()
  }

  async call<T>(method: string, ...params: unknown[]): Promise<T> {
    const response = await fetch(this.#url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': this.#token },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    const { result, error } = (await response.json()) as { result: T; error?: unknown }
    if (error !== undefined) throw new Error(JSON.stringify(error))
    return result
  }

  /** Subscribes on the socket and gives what calls back for each notification. */
  async subscribeTo(onNotice: () => void): Promise<void> {
    const answered = new Promise<void>((resolve) => {
      this.socket.on('message', (data) => {
        if (String(data).includes('"method":"accountNotification"')) onNotice()
        else resolve()
      })
    })
    const params = [encodeBase58(this.#to), { commitment: 'processed', encoding: 'base64' }]
    this.socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'accountSubscribe', params }))
    await answered
  }

  /** Signs the next transfer, each another one. */
  async transfer(): Promise<string> {
    if (performance.now() - this.#blockhashMs > blockhashMsMax) {
      const latest = await this.call<{ value: { blockhash: string } }>('getLatestBlockhash')
      this.#blockhash = decodeBase58(latest.value.blockhash)!
      this.#blockhashMs = performance.now()
    }
    const transfer = transferInstruction(this.#from.publicKey, this.#to, this.#lamports++)
    const bytes = buildTransaction({
      signers: [this.#from],
      blockhash: this.#blockhash,
      instructions: [transfer],
    })
    return Buffer.from(bytes).toString('base64')
  }

  send(transaction: string): Promise<string> {
    const options = { encoding: 'base64', skipPreflight: true }
    return this.call('sendTransaction', transaction, options)
  }

  async isProcessed(signature: string): Promise<boolean> {
    const { value } = await this.call<{ value: unknown[] }>('getSignatureStatuses', [signature])
    return value[0] !== null
  }
}
