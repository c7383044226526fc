// Confirms a transaction over PubSub with an unmodified @solana/web3.js: the token is in the URL.
//   TOKEN=… node examples/web3.mjs
import {
  Connection,
  Keypair,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js'

// web3.js finds PubSub one port above, with the same query: ws://127.0.0.1:8900/?api-key=…
const url = process.env.RPC_URL ?? 'http://127.0.0.1:8899'
const connection = new Connection(`${url}/?api-key=${process.env.TOKEN}`, 'confirmed')

// The embedded chain has a faucet; other chains refuse an airdrop.
const payer = Keypair.generate()
const latest = await connection.getLatestBlockhash()
const airdrop = await connection.requestAirdrop(payer.publicKey, 1_000_000_000)
await connection.confirmTransaction({ signature: airdrop, ...latest })

const transfer = SystemProgram.transfer({
  fromPubkey: payer.publicKey,
  toPubkey: Keypair.generate().publicKey,
  lamports: 5_000_000,
})
const signature = await sendAndConfirmTransaction(connection, new Transaction().add(transfer), [
  payer,
])
console.log(`confirmed ${signature}`)

let left = 3
connection.onSlotChange(({ slot }) => {
  console.log(`slot ${slot}`)
  if (--left === 0) process.exit(0)
})
