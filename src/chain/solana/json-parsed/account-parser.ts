// Makes the parser of `jsonParsed` accounts for ui-account.ts.

import { jsonText, sortedMembers } from '../../../base/json-text.ts'
import type { AccountParser } from '../ui-account.ts'
import { parsedAccount } from './accounts.ts'
import type { ReadAccount } from './parsed.ts'

/** `read` finds the mint of a token account, whose decimals are not in the account itself. */
export function accountParser(read: ReadAccount): AccountParser {
  return (account) => {
    const parsed = parsedAccount(account, read)
    return parsed === null ? null : jsonText(sortedMembers(parsed))
  }
}
