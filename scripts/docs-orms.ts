import { CASE_NAMES, ORM_TABLE } from '../packages/postgres/src/fixtures/orms/table.ts'
import { table } from './docs-table.ts'

/** What the tests of `packages/postgres/src/orms.int.test.ts` have shown of each ORM. */
export function ormTable(): string {
  return table(
    ['', ...Object.keys(ORM_TABLE)],
    CASE_NAMES.map((name) => [
      name,
      ...Object.values(ORM_TABLE).map(({ differs }) => differs?.[name] ?? '✓'),
    ]),
  )
}
