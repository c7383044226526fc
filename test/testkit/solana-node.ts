// A running server with short slots and a token without limits, and its rpc endpoint used by
// web3.js, or called bare.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  Connection,
  Keypair,
  type PublicKey,
  SystemProgram,
  Transaction,
  type TransactionInstruction,
} from '@solana/web3.js'
import { slotMsOfTests, startDevnode } from './devnode.ts'
import { provision, type Server, startServer } from './server.ts'
import { until } from './until.ts'

export interface RpcAnswer {
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever came
  readonly result?: any
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}

/** Where a gateway reaches a node. */
export interface NodeAddress {
  readonly url: string
  readonly token: string
  readonly server: Pick<Server, 'url'>
}

/**
 * web3.js on a chain of short slots. It keeps a finalized blockhash for 30 s; here one has expired
 * after seven.
 */
export class ShortSlotConnection extends Connection {
  _blockhashWithExpiryBlockHeight() {
    return this.getLatestBlockhash('processed')
  }
}

export class SolanaNode {
  readonly server: Server
  readonly token: string
  readonly url: string
  readonly connection: Connection

  private constructor(server: Server, token: string) {
    this.server = server
    this.token = token
    this.url = server.url('rpc')
    this.connection = new ShortSlotConnection(this.url, {
      commitment: 'processed',
      httpHeaders: { 'x-token': token },
    })
  }

  static start(...flags: string[]): Promise<SolanaNode> {
    return SolanaNode.startWith(`--chain.slotMs=${slotMsOfTests}`, ...flags)
  }

  /** A node that is up already and takes no token. */
  static async of(server: Pick<Server, 'url' | 'dispose'>): Promise<SolanaNode> {
    // Reason for the cast: a devnode has no doors.json, and nothing but its addresses is used.
    const node = new SolanaNode(server as Server, '')
    await until(async () => (await node.call('getHealth')).result === 'ok', 'a healthy chain')
    return node
  }

  /** One whose chain is that of other nodes. */
  static async before(nodes: readonly NodeAddress[], ...flags: string[]): Promise<SolanaNode> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'))
    const path = join(folder, 'sluice.yaml')
    const list = nodes.map(({ url, token, server }) => ({
      rpc: url,
      grpc: server.url('grpc'),
      xToken: token,
    }))
    const config = {
      chain: { source: 'upstream' },
      upstreams: { default: { nodes: list } },
      metrics: { source: 'embedded' },
    }
    // YAML takes JSON as it is.
    writeFileSync(path, JSON.stringify(config))
    try {
      return await SolanaNode.startWith(`--config=${path}`, ...flags)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }

  /** Disables what no customer of the chain sees, unless a flag names it: an idle server spends
   *  most of its time on metrics, and shredstream has a thread of its own. */
  static async startWith(...flags: string[]): Promise<SolanaNode> {
    const isNamed = (product: string) => flags.some((flag) => flag.startsWith(`--${product}.`))
    const off = ['metrics', 'tpu', 'shredstream'].filter((product) => !isNamed(product))
    const server = await startServer({
      flags: [...off.map((product) => `--${product}.enabled=false`), ...flags],
    })
    const { token } = await provision(server.data, 'solana', '--product=bundle', '--plan=unlimited')
    const node = new SolanaNode(server, token)
    await until(async () => (await node.call('getHealth')).result === 'ok', 'a healthy chain')
    return node
  }

  /** Kills it without a word and starts it again: same folder, same ports, same token. */
  async restarted(...flags: string[]): Promise<SolanaNode> {
    await this.server.stop('SIGKILL')
    return this.started(...flags)
  }

  /** Starts it again when it is gone. */
  async started(...flags: string[]): Promise<SolanaNode> {
    const { data, doors } = this.server
    const ports = ['rpc', 'websocket', 'grpc'].map(
      (endpoint) => `--${endpoint}.port=${doors[endpoint]!.port}`,
    )
    const server = await startServer({
      data,
      flags: [`--chain.slotMs=${slotMsOfTests}`, ...ports, ...flags],
    })
    const node = new SolanaNode(server, this.token)
    await until(async () => (await node.call('getHealth')).result === 'ok', 'a healthy chain')
    return node
  }

  /** The node for tests that dispose of the one that they get. */
  lent(): SolanaNode {
    return Object.create(this, { dispose: { value: () => Promise.resolve() } })
  }

  dispose(): Promise<void> {
    return this.server.dispose()
  }

  async call(method: string, ...params: unknown[]): Promise<RpcAnswer> {
    const response = await fetch(this.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': this.token },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    return (await response.json()) as RpcAnswer
  }

  async funded(lamports = 10_000_000_000): Promise<Keypair> {
    const keypair = Keypair.generate()
    await this.connection.requestAirdrop(keypair.publicKey, lamports)
    return keypair
  }

  async signed(instructions: TransactionInstruction[], signers: Keypair[]): Promise<Buffer> {
    const { blockhash } = await this.connection.getLatestBlockhash('processed')
    return signedWith(blockhash, instructions, signers)
  }

  /** Lands it and gives its signature. */
  async land(instructions: TransactionInstruction[], signers: Keypair[]): Promise<string> {
    const bytes = await this.signed(instructions, signers)
    return this.connection.sendRawTransaction(bytes, { preflightCommitment: 'processed' })
  }

  /** Waits until the signature has reached the commitment. */
  async reached(signature: string, level: 'confirmed' | 'finalized'): Promise<void> {
    await until(async () => {
      const { value } = await this.connection.getSignatureStatus(signature)
      const status = value?.confirmationStatus
      return status === level || status === 'finalized'
    }, `${level} ${signature}`)
  }
}

export function signedWith(
  blockhash: string,
  instructions: TransactionInstruction[],
  signers: Keypair[],
): Buffer {
  const transaction = new Transaction({
    feePayer: signers[0]!.publicKey,
    recentBlockhash: blockhash,
  })
  transaction.add(...instructions).sign(...signers)
  return transaction.serialize({ verifySignatures: false })
}

export function transfer(from: Keypair, to: PublicKey, lamports: number): TransactionInstruction {
  return SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports })
}

/** For `describe.each`: a devnode alone, and a gateway in front of one; both without traffic. */
export const devnodeAndGateway = [
  ['a devnode', async () => SolanaNode.of(await startDevnode())],
  ['a gateway', () => SolanaNode.start('--chain.traffic=0')],
] as const
