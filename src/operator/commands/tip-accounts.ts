// `sluice tip-accounts`: shows the tip accounts of the running server, else the configured ones.
import { accept, refuse } from '../../base/errors.ts'
import { askServer } from './ask-server.ts'
import type { Verb } from './verb.ts'

export const tipAccountsVerb: Verb = {
  words: ['tip-accounts'],
  summary: 'Show the accounts that tips go to.',
  examples: ['tip-accounts'],
  async run({ loaded }) {
    const { data, tpu } = loaded.config
    const answer = await askServer(data, 'tip-accounts')
    if (!answer.ok && answer.reason !== 'no-server')
      return refuse('unavailable', 'no-answer', answer.message)
    const { tipAccounts } = answer.ok
      ? (answer.value as { tipAccounts: readonly string[] })
      : { tipAccounts: tpu.tipAccounts }
    if (tipAccounts.length > 0)
      return accept({ json: { tipAccounts }, text: tipAccounts.join('\n') })
    return refuse(
      'unavailable',
      'no-server',
      `tpu.tipAccounts is empty and no TPU Sender runs on ${data}; a running one creates its own`,
    )
  },
}
