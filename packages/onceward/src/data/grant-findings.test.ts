import { describe, expect, test } from 'vitest'
import { type Answers, scriptedQuery } from '../fixtures/scripted-database.ts'
import { grantFindings, mayReadStatus } from './grant-findings.ts'

const TABLES = { quoted: '"shop"' }
const role = (name: string, settings: boolean, leases: boolean) => ({
  role: name,
  settings,
  leases,
})
const SETTINGS = 'grant select (epoch, sweep_cursor, swept_at) on "shop".settings to'
const LEASES = 'grant select on "shop".leases to'

describe('rights of operators', () => {
  const found = async (...rows: readonly unknown[]) => {
    const { asked, query } = scriptedQuery([['pg_roles', rows]])
    return { findings: await grantFindings(query, TABLES), asked }
  }

  test('that are complete are not mentioned', async () => {
    expect((await found(role('onceward_operator', true, true))).findings).toEqual([])
    const { asked, findings } = await found()
    expect(findings).toEqual([])
    expect(asked.map(({ values }) => values)).toEqual([['"shop".settings', '"shop".leases']])
  })

  test.each([
    [role('onceward_operator', false, true), `\`${SETTINGS} onceward_operator\``],
    [role('alice', true, false), `\`${LEASES} alice\``],
    [role('alice', false, false), `\`${SETTINGS} alice; ${LEASES} alice\``],
  ])('that lack something, as %j, are given by one statement', async (lacking, statement) => {
    const { findings } = await found(role('onceward_operator', true, true), lacking)
    expect(findings).toMatchObject([
      { severity: 'warning', about: 'tables', finding: expect.stringContaining(lacking.role) },
    ])
    expect(findings[0]?.remedy).toContain(statement)
  })
})

test.each<readonly [Answers, boolean]>([
  [[['as may', [{ may: true }]]], true],
  [[['as may', [{ may: false }]]], false],
  [[], false],
])('with %j this login may read the status: %s', async (answers, may) => {
  const { asked, query } = scriptedQuery(answers)
  expect(await mayReadStatus(query, TABLES)).toBe(may)
  expect(asked.map(({ values }) => values)).toEqual([['"shop".settings']])
})
