// `SLUICE_CLUSTER_FULL=1` runs the tests of a cluster at the counts and times that the design
// demands. Removed once read: servers of a test would take it for a key of the section `cluster`.
export const isFull = process.env.SLUICE_CLUSTER_FULL === '1'
delete process.env.SLUICE_CLUSTER_FULL
