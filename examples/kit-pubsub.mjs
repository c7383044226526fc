// Confirms a transaction over PubSub with an unmodified @solana/kit: the token is in both URLs.
//   TOKEN=… node examples/kit-pubsub.mjs
import {
  airdropFactory,
  appendTransactionMessageInstruction,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  generateKeyPairSigner,
  getSignatureFromTransaction,
  lamports,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { getTransferSolInstruction } from '@solana-program/system'

const query = `/?api-key=${process.env.TOKEN}`
const rpc = createSolanaRpc(`${process.env.RPC_URL ?? 'http://127.0.0.1:8899'}${query}`)
const rpcSubscriptions = createSolanaRpcSubscriptions(
  `${process.env.WEBSOCKET_URL ?? 'ws://127.0.0.1:8900'}${query}`,
)
const commitment = 'confirmed'

// The embedded chain has a faucet; other chains refuse an airdrop.
const payer = await generateKeyPairSigner()
const airdrop = airdropFactory({ rpc, rpcSubscriptions })
await airdrop({
  commitment,
  recipientAddress: payer.address,
  lamports: lamports(1_000_000_000n),
})

const recipient = await generateKeyPairSigner()
const { value: blockhash } = await rpc.getLatestBlockhash({ commitment }).send()
const transfer = getTransferSolInstruction({
  source: payer,
  destination: recipient.address,
  amount: 5_000_000n,
})
const message = pipe(
  createTransactionMessage({ version: 0 }),
  (draft) => setTransactionMessageFeePayerSigner(payer, draft),
  (draft) => setTransactionMessageLifetimeUsingBlockhash(blockhash, draft),
  (draft) => appendTransactionMessageInstruction(transfer, draft),
)
const transaction = await signTransactionMessageWithSigners(message)
const sendAndConfirm = sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions })
await sendAndConfirm(transaction, { commitment })
console.log(`confirmed ${getSignatureFromTransaction(transaction)}`)

const abort = new AbortController()
const slots = await rpcSubscriptions.slotNotifications().subscribe({ abortSignal: abort.signal })
let left = 3
for await (const { slot } of slots) {
  console.log(`slot ${slot}`)
  if (--left === 0) break
}
abort.abort()
