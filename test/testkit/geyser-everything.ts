// A stream that asks for everything, and its messages without times.
import type { Client } from '@grpc/grpc-js'
import { ProtoReader } from '../../src/base/protobuf.ts'
import { Subscription, withToken } from './grpc-stage.ts'

const keys = { accountInclude: [], accountExclude: [], accountRequired: [] }
export const everything = {
  accounts: { a: { account: [], owner: [], filters: [] } },
  slots: { s: { interslotUpdates: true } },
  transactions: { t: keys },
  transactionsStatus: { u: keys },
  blocks: { b: { includeAccounts: true, includeEntries: true }, c: { includeTransactions: false } },
  blocksMeta: { m: {} },
  entry: { e: {} },
}

const createdAtField = 11
const pingFields: readonly number[] = [6, 9]

export async function openEverything(
  client: Client,
  token: string,
  request: object = {},
): Promise<Subscription> {
  const subscription = new Subscription(client, withToken(token))
  subscription.ask({ ...everything, ...request })
  await subscription.settled()
  return subscription
}

/** The messages but pings, as hex, without created_at. */
export function wordsIn(raw: readonly Buffer[]): string[] {
  return raw.flatMap((message) => {
    const reader = new ProtoReader(message)
    let words = ''
    while (reader.next()) {
      if (pingFields.includes(reader.field)) return []
      if (reader.field !== createdAtField)
        words += `${reader.field}:${Buffer.from(reader.bytes).toString('hex')} `
    }
    return [words]
  })
}
