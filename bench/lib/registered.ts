// An active subscription with a token, as the registry has it. Thread: any (pure).
import { digestOf, issueId } from '../../src/customers/subscriptions/issue.ts'
import type { Registered } from '../../src/customers/subscriptions/subscription.ts'

export function recordOf(token: string, index: number): Registered {
  return {
    tokenDigest: digestOf(token),
    retiring: null,
    passwordDigest: null,
    subscription: {
      id: issueId(),
      label: `bench-${index}`,
      products: ['bundle'],
      plan: 'standard',
      state: 'active',
      cidrs: [],
      tokenLast4: token.slice(-4),
      destination: null,
      upstream: null,
      note: '',
      createdAt: '2026-01-01T00:00:00.000Z',
      changedAt: '2026-01-01T00:00:00.000Z',
    },
  }
}
