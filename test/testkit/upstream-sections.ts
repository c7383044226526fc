// Sections of upstream sets as the configuration would give them, with what a test changes.
import { type NodeSection, type SetSection, singleNodeSet } from '../../src/upstream/config.ts'

/** Nothing listens there; a test that calls it shall see that. */
export const nowhere = 'http://127.0.0.1:9/rpc?api-key=secret-key'

export function nodeSection(changes: Partial<NodeSection> = {}): NodeSection {
  return {
    rpc: nowhere,
    ws: '',
    grpc: '',
    xToken: '',
    weight: 1,
    region: '',
    allow: [],
    deny: [],
    ...changes,
  }
}

export function setSection(
  nodes: readonly Partial<NodeSection>[],
  changes: Partial<SetSection> = {},
): SetSection {
  return {
    ...singleNodeSet({}),
    nodes: nodes.map(nodeSection),
    cacheBytes: 0,
    ...changes,
  }
}
