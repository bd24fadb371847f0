import type { Finding } from '../data/finding.ts'
import type { Output } from '../output.ts'
import { counted } from './units.ts'
import { visible } from './visible.ts'

const STYLES = { error: 'red', warning: 'yellow' } as const

export function findingsText(
  findings: readonly Finding[],
  { style }: Pick<Output, 'style'>,
): string {
  if (findings.length === 0) return 'Nothing was found.'
  const errors = findings.filter(({ severity }) => severity === 'error')
  const others = findings.filter(({ severity }) => severity !== 'error')
  const texts = [...errors, ...others].map(
    ({ about, finding, remedy, severity }) =>
      `${style(STYLES[severity], severity)}  ${about}: ${visible(finding)}\n  → ${visible(remedy)}`,
  )
  const count = `${counted(errors.length, 'error')}, ${counted(others.length, 'warning')}`
  return [...texts, count].join('\n\n')
}
