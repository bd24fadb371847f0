import { writeFile } from 'node:fs/promises'
import type { Benchmark } from '../runner/report.ts'
import { installRivals } from './install.ts'

type Values = Benchmark['values']

/** Wide enough for the page of a document. */
const WIDTH = 480

/** Draws the rates of `rivals`, and how many effects ten SIGKILLs doubled in the worst case for Redis. */
export async function drawRivals(values: Values, file: string): Promise<void> {
  await installRivals()
  const [{ compile }, { parse, View }] = await Promise.all([import('vega-lite'), import('vega')])
  const { spec } = compile(specOf(values))
  const svg = await new View(parse(spec), { renderer: 'none' }).toSVG()
  await writeFile(file, `${svg}\n`)
}

function specOf(values: Values): Readonly<Record<string, unknown>> {
  const names = Object.keys(values).filter((name) => `${name}, half duplicates` in values)
  const bars = (field: string, title: string) => ({
    x: { field, type: 'quantitative', title },
    y: { field: 'name', type: 'nominal', sort: names, title: null },
  })
  return {
    background: 'white',
    config: { font: 'sans-serif', axis: { labelLimit: 400 }, legend: { labelLimit: 400 } },
    vconcat: [
      {
        width: WIDTH,
        data: { values: names.flatMap((name) => ratesOf(values, name)) },
        mark: 'bar',
        encoding: {
          ...bars('rate', 'events per second'),
          yOffset: { field: 'of', type: 'nominal', sort: null },
          color: {
            field: 'of',
            type: 'nominal',
            sort: null,
            title: 'messages',
            legend: { orient: 'top' },
          },
        },
      },
      {
        width: WIDTH,
        data: { values: names.map((name) => ({ name, doubled: doubledOf(values, name) })) },
        mark: { type: 'bar', color: '#c0392b' },
        encoding: bars('doubled', 'events of 300 whose effect is there twice after ten SIGKILLs'),
      },
    ],
  }
}

const ratesOf = (values: Values, name: string) => [
  { name, of: 'none was there before', rate: values[name] },
  { name, of: 'half are copies', rate: values[`${name}, half duplicates`] },
]

function doubledOf(values: Values, name: string): number {
  const doubled = Object.entries(values).filter(
    ([label]) => label.startsWith(`${name}, `) && label.endsWith('doubled'),
  )
  return Math.max(...doubled.map(([, count]) => count))
}
