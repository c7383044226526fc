// Follows slots and transactions on the gRPC endpoint with an unmodified yellowstone client.
//   TOKEN=… node examples/yellowstone.mjs [updates]
import yellowstone from '@triton-one/yellowstone-grpc'

const count = Number(process.argv[2] ?? Infinity)
const Client = yellowstone.default ?? yellowstone
const client = new Client(process.env.GRPC_URL ?? 'http://127.0.0.1:10010', process.env.TOKEN, {})
console.log(`slot ${await client.getSlot()}`)

const stream = await client.subscribe()
stream.write({
  commitment: 1, // confirmed
  slots: { slots: { filterByCommitment: true } },
  transactions: {
    all: { failed: false, accountInclude: [], accountExclude: [], accountRequired: [] },
  },
  accounts: {},
  transactionsStatus: {},
  blocks: {},
  blocksMeta: {},
  entry: {},
  accountsDataSlice: [],
})

let seen = 0
stream.on('data', ({ slot, transaction, filters }) => {
  if (slot) console.log(`slot ${slot.slot} is confirmed`)
  else if (transaction)
    console.log(
      `transaction ${transaction.transaction.index} of slot ${transaction.slot}, filter ${filters}`,
    )
  else return // a ping of the server, every 10 s
  if (++seen >= count) process.exit(0)
})
// Ended by the server: subscribe again with `fromSlot`, the last slot that was seen.
stream.on('error', ({ code, details }) => {
  console.error(`ended with ${code}: ${details}`)
  process.exit(1)
})
