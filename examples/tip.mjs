// Sends a transaction with a tip to the TPU sender and waits until it is in a block.
//   TOKEN=… node examples/tip.mjs        the token is for reading; the tip alone pays for the sending
import {
  address,
  appendTransactionMessageInstructions,
  createDefaultRpcTransport,
  createSolanaRpcFromTransport,
  createTransactionMessage,
  generateKeyPairSigner,
  getBase64EncodedWireTransaction,
  lamports,
  pipe,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { getTransferSolInstruction } from '@solana-program/system'

const tpu = process.env.TPU_URL ?? 'http://127.0.0.1:8901'
const url = process.env.RPC_URL ?? 'http://127.0.0.1:8899'
const headers = { 'x-token': process.env.TOKEN }
const rpc = createSolanaRpcFromTransport(createDefaultRpcTransport({ url, headers }))

const { tipAccounts } = await (await fetch(`${tpu}/tip-accounts`)).json()
const payer = await generateKeyPairSigner()
const recipient = await generateKeyPairSigner()
await rpc.requestAirdrop(payer.address, lamports(1_000_000_000n)).send()
const { value: blockhash } = await rpc.getLatestBlockhash({ commitment: 'processed' }).send()

const transfer = (to, amount) =>
  getTransferSolInstruction({ source: payer, destination: address(to), amount })
const message = pipe(
  createTransactionMessage({ version: 0 }),
  (draft) => setTransactionMessageFeePayerSigner(payer, draft),
  (draft) => setTransactionMessageLifetimeUsingBlockhash(blockhash, draft),
  (draft) =>
    appendTransactionMessageInstructions(
      [
        transfer(recipient.address, 5_000_000n),
        transfer(tipAccounts[0], 1_000_000n), // the tip: at least 1,000,000 lamports, top level
      ],
      draft,
    ),
)
const signed = await signTransactionMessageWithSigners(message)

const answer = await fetch(tpu, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'sendTransaction',
    params: [getBase64EncodedWireTransaction(signed), { encoding: 'base64' }],
  }),
})
const { result: signature, error } = await answer.json()
if (error) throw new Error(`${error.message} (${error.data?.reason})`)
console.log(`sent ${signature}`)

for (let tries = 0; tries < 100; tries++) {
  const { value } = await rpc.getSignatureStatuses([signature]).send()
  if (
    value[0]?.confirmationStatus === 'confirmed' ||
    value[0]?.confirmationStatus === 'finalized'
  ) {
    console.log(`in slot ${value[0].slot}, ${value[0].err === null ? 'succeeded' : 'failed'}`)
    process.exit(0)
  }
  await new Promise((resolve) => setTimeout(resolve, 400))
}
console.error('not in a block: the blockhash has expired')
process.exit(1)
