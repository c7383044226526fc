// Queries the server that runs on a data folder through its operator socket.
// The folder's lock shows whether there is one: a server that starts or stops has it, too.
import { resolve } from 'node:path'
import { type Outcome, refuse } from '../../base/errors.ts'
import { askOperator, type OperatorAnswer } from '../../base/transport/operator-socket.ts'

export async function askServer(
  data: string,
  ask: string,
  params: Readonly<Record<string, unknown>> = {},
): Promise<OperatorAnswer> {
  const answer = await askOperator(data, ask, params)
  if (answer.ok || answer.reason !== 'no-server') return answer
  const { lockHolder } = await import('../../customers/subscriptions/lock.ts')
  const holder = await lockHolder(resolve(data))
  if (holder === null) return answer
  const who = holder.pid === null ? 'a server' : `process ${holder.pid}`
  const message = `${who} uses the data folder but does not answer: it is starting or stopping`
  return { ok: false, reason: 'fault', message }
}

/** For a verb that needs a running server. */
export function noServer(data: string, answer: OperatorAnswer & { ok: false }): Outcome<never> {
  return answer.reason === 'no-server'
    ? refuse('unavailable', 'no-server', `no server runs on ${data}`)
    : refuse('unavailable', 'no-answer', answer.message)
}
