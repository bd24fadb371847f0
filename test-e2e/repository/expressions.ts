import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type AST, parseRegExpLiteral } from '@eslint-community/regexpp'
import {
  getConsumedChars,
  getFirstConsumedChar,
  getLengthRange,
  matchesAllCharacters,
} from 'regexp-ast-analysis'
import { parseAst } from 'rolldown/parseAst'
import { analyse } from 'scslre'

const packagesDirectory = fileURLToPath(new URL('../../packages', import.meta.url))
const SOURCE = /^[^/]+\/src\/.*\.[jt]s$/
const TEST = /\.test(?:-d)?\.ts$|\/fixtures\//

/** A regular expression in the sources of the packages. */
export interface Expression {
  /** `core/src/identity/inflate.ts:74` */
  readonly place: string
  /** As it stands in the source: a literal, or a call of `RegExp`. */
  readonly text: string
  readonly isLiteral: boolean
}

/** All regular expressions that run in what the packages ship. */
export function expressionsInPackages(): readonly Expression[] {
  const files = readdirSync(packagesDirectory, { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => SOURCE.test(file) && !TEST.test(file))
    .flatMap((file) => expressionsIn(file, readFileSync(join(packagesDirectory, file), 'utf8')))
}

export function expressionsIn(file: string, source: string): readonly Expression[] {
  const found: Expression[] = []
  const tree = parseAst(source, { lang: file.endsWith('.ts') ? 'ts' : 'js' }, file)
  const left: unknown[] = [tree]
  while (left.length > 0) {
    const node = left.pop()
    if (typeof node !== 'object' || node === null) continue
    left.push(...Object.values(node))
    const { callee, end = 0, regex, start = 0, type } = node as Partial<SourceNode>
    const isLiteral = type === 'Literal' && regex !== undefined
    const isMade = type?.endsWith('Expression') === true && callee?.name === 'RegExp'
    if (!(isLiteral || isMade)) continue
    const line = source.slice(0, start).split('\n').length
    found.push({ place: `${file}:${line}`, text: source.slice(start, end), isLiteral })
  }
  return found
}

interface SourceNode {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly regex: object
  readonly callee: { readonly name?: string }
}

/**
 * Why an expression may need more than linear time for a text; empty if it never does. Two parts that may match the same
 * characters try all ways to share them. An expression that may begin anywhere begins again in what a part of it has
 * just read.
 *
 * @param literal - With its slashes and flags.
 */
export function superLinear(literal: string): readonly string[] {
  const { pattern, flags } = parseRegExpLiteral(literal)
  const { reports } = analyse({ source: pattern.raw, flags: flags.raw })
  const shared = reports.map(({ character, type }) => `${type}: repeat ${character.literal.source}`)
  const unbounded = unboundedIn(pattern)
  const ambiguous = unbounded.filter(({ element }) => hasTwoWays(element, flags))
  const restarted = flags.sticky ? [] : unbounded.filter((each) => beginsInside(each, flags))
  return [
    ...shared,
    ...ambiguous.map(({ raw }) => `two alternatives of ${raw} begin alike`),
    ...restarted.map(({ raw }) => `begins again in what ${raw} reads`),
  ]
}

function hasTwoWays(element: AST.Element, flags: AST.Flags): boolean {
  if (!('alternatives' in element)) return false
  const firsts = element.alternatives.map((each) => getFirstConsumedChar(each, 'ltr', flags).char)
  return firsts.some((first, at) =>
    firsts.slice(at + 1).some((other) => !first.isDisjointWith(other)),
  )
}

type Parent = AST.Pattern | AST.Element | AST.Alternative

function unboundedIn(node: Parent): readonly AST.Quantifier[] {
  const children: readonly Parent[] =
    'alternatives' in node
      ? node.alternatives
      : 'elements' in node && node.type === 'Alternative'
        ? node.elements
        : node.type === 'Quantifier'
          ? [node.element]
          : []
  const inside = children.flatMap(unboundedIn)
  return node.type === 'Quantifier' && node.max === Number.POSITIVE_INFINITY
    ? [node, ...inside]
    : inside
}

/** Whether a match may begin at each character that the quantifier reads, and fail behind it each time. */
function beginsInside(quantifier: AST.Quantifier, flags: AST.Flags): boolean {
  const { before, behind } = aroundOf(quantifier)
  const mayFail = behind.some((element) => canFail(element, quantifier, flags))
  return mayFail && !before.some((element) => cannotRepeat(element, quantifier, flags))
}

/** What stands before and behind it on every way to it. */
function aroundOf(quantifier: AST.Quantifier): Record<'before' | 'behind', AST.Element[]> {
  const before: AST.Element[] = []
  const behind: AST.Element[] = []
  for (let node: AST.Node = quantifier; node.parent !== null; node = node.parent) {
    const { parent }: AST.Node = node
    if (parent.type === 'Alternative') {
      const at = parent.elements.indexOf(node as AST.Element)
      before.push(...parent.elements.slice(0, at))
      behind.push(...parent.elements.slice(at + 1))
    }
  }
  return { before, behind }
}

function canFail(element: AST.Element, quantifier: AST.Quantifier, flags: AST.Flags): boolean {
  if (element.type !== 'Assertion') return getLengthRange(element, flags).min > 0
  const { element: read } = quantifier
  const readsAll = read.type === 'CharacterSet' && matchesAllCharacters(read, flags)
  return !(element.kind === 'end' && !flags.multiline && quantifier.greedy && readsAll)
}

/** Whether what must be matched before the quantifier is never found in what the quantifier reads. */
function cannotRepeat(element: AST.Element, quantifier: AST.Quantifier, flags: AST.Flags): boolean {
  switch (element.type) {
    case 'Assertion':
      return element.kind === 'start' && !flags.multiline
    case 'Character':
    case 'CharacterClass':
    case 'CharacterSet': {
      const { chars } = getConsumedChars(quantifier, flags)
      return chars.isDisjointWith(getConsumedChars(element, flags).chars)
    }
    case 'Group':
    case 'CapturingGroup':
      return element.alternatives.every(({ elements }) =>
        elements.some((each) => cannotRepeat(each, quantifier, flags)),
      )
    case 'Quantifier':
      return element.min > 0 && cannotRepeat(element.element, quantifier, flags)
    default:
      return false
  }
}
