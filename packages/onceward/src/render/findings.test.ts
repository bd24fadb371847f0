import { expect, test } from 'vitest'
import type { Finding } from '../data/finding.ts'
import { findingsText } from './findings.ts'

const MARKED = { style: (style: unknown, text: string) => `<${String(style)}>${text}</>` }
const finding = (severity: Finding['severity'], text: string): Finding => ({
  ...{ severity, about: 'tables', finding: text, remedy: 'Run `x\u001b`.' },
})

test('without findings, that is said', () => {
  expect(findingsText([], MARKED)).toBe('Nothing was found.')
})

test('errors come first, each with what to do, and then they are counted', () => {
  const found = [
    finding('warning', 'Slow.'),
    finding('error', 'Gone\u001b.'),
    finding('warning', 'Old.'),
  ]
  const remedy = '  → Run `x\\u{1b}`.'
  expect(findingsText(found, MARKED)).toBe(
    [
      `<red>error</>  tables: Gone\\u{1b}.\n${remedy}`,
      `<yellow>warning</>  tables: Slow.\n${remedy}`,
      `<yellow>warning</>  tables: Old.\n${remedy}`,
      '1 error, 2 warnings',
    ].join('\n\n'),
  )
})
