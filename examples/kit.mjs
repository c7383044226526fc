// Uses the RPC endpoint with an unmodified @solana/kit: only the header is added.
//   TOKEN=… node examples/kit.mjs
import {
  createDefaultRpcTransport,
  createSolanaRpcFromTransport,
  generateKeyPairSigner,
  lamports,
} from '@solana/kit'

const rpc = createSolanaRpcFromTransport(
  createDefaultRpcTransport({
    url: process.env.RPC_URL ?? 'http://127.0.0.1:8899',
    headers: { 'x-token': process.env.TOKEN },
  }),
)

const { 'solana-core': version } = await rpc.getVersion().send()
console.log(`validator ${version}, slot ${await rpc.getSlot().send()}`)

// The embedded chain has a faucet; other chains refuse an airdrop.
const { address } = await generateKeyPairSigner()
await rpc.requestAirdrop(address, lamports(1_000_000_000n)).send()
const { value } = await rpc.getBalance(address, { commitment: 'processed' }).send()
console.log(`${address} has ${value} lamports`)
