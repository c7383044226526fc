// Lists of accounts in answers, built in turns: a long one must not block the event loop.
// Thread: main of the devnode.
import { accountParser } from '../../chain/solana/json-parsed/account-parser.ts'
import { keyText } from '../../chain/solana/key-text.ts'
import { isTokenProgram } from '../../chain/solana/token-account.ts'
import {
  type AccountParser,
  type AccountView,
  sortedAccountText,
} from '../../chain/solana/ui-account.ts'
import { accountText, type ReadState } from '../../chain/solana-rpc/encode-account.ts'
import { inTurns, whenDone } from '../../chain/solana-rpc/in-turns.ts'
import type { LedgerAccount } from '../ledger/ledger.ts'

/** About a millisecond of work. */
const accountsPerTurn = 256

/** `[{account, pubkey}, …]`; null when one is too long for base58. */
export function keyedAccountsText(
  accounts: readonly LedgerAccount[],
  view: AccountView,
  read: ReadState,
): string | null | Promise<string | null> {
  const parse = accountParser(read)
  const texts = inTurns(accounts, accountsPerTurn, (account) => {
    const text = isParsedToken(account, view)
      ? parsedText(account, view, parse)
      : accountText(account, view, read)
    return text && `{"account":${text},"pubkey":"${keyText(account.pubkey)}"}`
  })
  return whenDone(texts, (list) =>
    list.includes(null) ? null : `[${list.filter((text) => text !== '').join(',')}]`,
  )
}

function isParsedToken(account: LedgerAccount, { encoding }: AccountView): boolean {
  return encoding === 'jsonParsed' && isTokenProgram(account.owner)
}

/** Empty for a token account that cannot be parsed: a validator leaves it out of its lists. */
function parsedText(account: LedgerAccount, view: AccountView, parse: AccountParser): string {
  const parsed = parse(account)
  return parsed === null ? '' : sortedAccountText(account, view, () => parsed)
}
