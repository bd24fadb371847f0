/** One line that a query draws, now. */
export interface Line {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** A Prometheus to ask. */
export interface Asked {
  /** What a query answers now: one line for each series. */
  lines(query: string): Promise<readonly Line[]>
  /** The names of the alerts that fire now. */
  firing(): Promise<readonly string[]>
}

export function ask(url: string): Asked {
  return {
    lines: async (query) => {
      const parameters = new URLSearchParams({ query })
      const response = await fetch(`${url}/api/v1/query?${parameters}`)
      const answer = (await response.json()) as {
        readonly error?: string
        readonly data?: {
          readonly result: readonly {
            readonly metric: Readonly<Record<string, string>>
            readonly value: readonly [number, string]
          }[]
        }
      }
      if (answer.data === undefined) throw new Error(`${query}: ${answer.error}`)
      return answer.data.result.map(({ metric, value: [, value] }) => ({
        labels: metric,
        value: Number(value),
      }))
    },
    firing: async () => {
      const response = await fetch(`${url}/api/v1/alerts`)
      const { data } = (await response.json()) as {
        readonly data: {
          readonly alerts: readonly {
            readonly state: string
            readonly labels: { readonly alertname: string }
          }[]
        }
      }
      return data.alerts
        .filter(({ state }) => state === 'firing')
        .map(({ labels }) => labels.alertname)
    },
  }
}
