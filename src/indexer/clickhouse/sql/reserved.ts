// Words of ClickHouse's grammar that are no names in certain places. Data only.

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

const clauses = `
  FINAL SAMPLE PREWHERE WHERE GROUP HAVING WINDOW QUALIFY ORDER LIMIT OFFSET FETCH SETTINGS UNION
  EXCEPT INTERSECT INTO FORMAT WITH AS ON USING GLOBAL LOCAL ARRAY LEFT RIGHT INNER FULL CROSS
  JOIN ANY ALL ASOF SEMI ANTI PASTE NATURAL SELECT OUTER
`

/** No alias of a table without AS. */
export const notTableAlias = words(clauses)

/** No alias of an expression without AS. */
export const notAlias = words(`${clauses}
  FROM AND OR NOT IN IS LIKE ILIKE BETWEEN THEN ELSE WHEN END DIV MOD ASC DESC ASCENDING DESCENDING
  NULLS COLLATE OVER FILTER REPLACE APPLY BY REGEXP
`)

/** Never a column. */
export const notColumn = words(`
  FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT WITH AS AND OR IN IS LIKE THEN ELSE
  WHEN END JOIN ON USING BY SELECT BETWEEN
`)

/** What may follow a complete query, as ClickHouse lists it. */
export const following = `Comma|FROM|PREWHERE|WHERE|GROUP BY|WITH|HAVING|WINDOW|QUALIFY|ORDER BY|
  LIMIT|OFFSET|SETTINGS|UNION|EXCEPT|INTERSECT|FORMAT|end of query`
  .split('|')
  .map((word) => word.trim())
