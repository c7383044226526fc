// Names the accounts of instructions for `jsonParsed`, by the words of instruction-table.ts.

/** Adds the accounts from `index` on; returns the index of the next one. */
export type NameAccounts = (
  accounts: readonly string[],
  index: number,
  members: Map<string, unknown>,
) => number

export function accountNamer(word: string): NameAccounts {
  const name = word.replace(/^\W+|[?~]$/g, '')
  switch (word[0]) {
    case '.':
      return (accounts, index, members) => {
        members.set(name, accounts.slice(index))
        return accounts.length
      }
    case '@':
      return signerMembers(name)
    case '%':
      return proofMembers(name)
    default: {
      const absent = word.endsWith('~') ? null : undefined
      return (accounts, index, members) => {
        members.set(name, accounts[index] ?? absent)
        return index + 1
      }
    }
  }
}

function signerMembers(word: string): NameAccounts {
  const [signer, alias] = word.split('=') as [string, string?]
  const multisig = alias ?? `multisig${signer[0]!.toUpperCase()}${signer.slice(1)}`
  return (accounts, index, members) => {
    if (accounts.length === index + 1) members.set(signer, accounts[index])
    else {
      members.set(multisig, accounts[index])
      members.set('signers', accounts.slice(index + 1))
    }
    return accounts.length
  }
}

/**
 * A proof is in another instruction of the transaction, at an offset that the data has, or, when
 * the offset is 0, in an account. With any offset but 0 the sysvar of instructions precedes. All
 * accounts but the last are taken for proofs: the signers of a multisig look the same.
 */
function proofMembers(word: string): NameAccounts {
  const [list, alias] = word.split('=') as [string, string?]
  const proofs = list.split(',').map((proof) => ({
    offset: `${proof}InstructionOffset`,
    context: `${proof}ContextStateAccount`,
    record: alias ?? `${proof}RecordAccount`,
  }))
  return (accounts, start, members) => {
    const end = accounts.length - 1
    let index = start
    if (index < end && proofs.some(({ offset }) => members.get(offset) !== 0))
      members.set('instructionsSysvar', accounts[index++])
    for (const { offset, context, record } of proofs) {
      if (index >= end) break
      members.set(members.get(offset) === 0 ? context : record, accounts[index++])
    }
    return index
  }
}
