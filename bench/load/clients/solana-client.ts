// A customer of a server of its own: starts it, provisions a token, sends transfers and waits to
// receive them. Thread: main of the bench process.
import { WebSocket } from 'ws'
import { decodeBase58, encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { Keypair } from '../../../src/chain/solana/keypair.ts'
import { buildTransaction, transferInstruction } from '../../../src/devnode/build.ts'
import { startWholeServer } from '../../lib/whole-server.ts'

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

  /** With the other products of a server, as far as they are not turned off by flags. */
  static async start(flags: readonly string[] = []): Promise<SolanaClient> {
    const { doors, token, stop } = await startWholeServer(['--chain.traffic=0', ...flags])
    const address = `ws://127.0.0.1:${doors.websocket!.port}`
    const socket = new WebSocket(address, { headers: { 'x-token': token } })
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
    const url = `http://127.0.0.1:${doors.rpc!.port}`
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
        if (String(data).includes('"method":"logsNotification"')) onNotice()
        else resolve()
      })
    })
    const params = [{ mentions: [encodeBase58(this.#to)] }, { commitment: 'processed' }]
    this.socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'logsSubscribe', params }))
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
