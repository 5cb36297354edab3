// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/operators/table.h"

#include <concepts>
#include <cstring>

#include "kernels/operators/lists.h"
#include "kernels/operators/operator_list.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels {
namespace {

template <class State>
State Read(const std::byte* bytes) {
  State state;
  std::memcpy(&state, bytes, sizeof state);
  return state;
}

template <class State>
void Write(const State& state, std::byte* bytes) {
  std::memcpy(bytes, &state, sizeof state);
}

template <Operator Op>
void CombineStates(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* left,
                   const std::byte* right, std::byte* out) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  for (std::size_t i = 0; i < entries * sizeof(State); i += sizeof(State)) {
    Write(op.Combine(Read<State>(left + i), Read<State>(right + i)), out + i);
  }
}

template <Operator Op>
void WriteIdentity(const OperatorParameters& parameters, std::uint32_t entries, std::byte* out) {
  using State = typename Op::State;
  for (std::size_t i = 0; i < entries * sizeof(State); i += sizeof(State)) {
    Write(MakeOperator<Op>(parameters).Identity(), out + i);
  }
}

template <Operator Op>
void CanonicalizeStates(std::uint32_t entries, std::byte* state) {
  using State = typename Op::State;
  static_assert(!Approximate<Op> || HasCanonicalState<Op>, "what rounds has Canonical");
  if constexpr (HasCanonicalState<Op>) {
    for (std::size_t i = 0; i < entries * sizeof(State); i += sizeof(State)) {
      Write(Op{}.Canonical(Read<State>(state + i)), state + i);
    }
  }
}

template <Operator Op>
bool StatesArePossible(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* state,
                       std::uint64_t first, std::uint64_t count) {
  using State = typename Op::State;
  if constexpr (ChecksStates<Op>) {
    const Op op = MakeOperator<Op>(parameters);
    for (std::size_t i = 0; i < entries * sizeof(State); i += sizeof(State)) {
      if (!op.IsPossible(Read<State>(state + i), first, count)) return false;
    }
  }
  return true;
}

template <Operator Op>
Outcome FinishState(const OperatorParameters& parameters, const std::byte* state, std::uint64_t count,
                    std::uint32_t entry) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  if constexpr (FinishesEntries<Op>) {
    return op.FinishEntry(Read<State>(state), entry);
  } else if constexpr (HasFields<Op>) {
    return op.FinishField(Read<State>(state), count, entry);
  } else {
    return op.Finish(Read<State>(state + entry * sizeof(State)), count);
  }
}

template <Operator Op>
constexpr std::span<const char* const> FieldsOf() {
  if constexpr (HasFields<Op>) {
    return Op::kFields;
  } else {
    return {};
  }
}

// The mean of integers has sum's member `wrap`, but nobody sets it, since the mean cannot overflow.
template <class Op>
concept Wraps = MayWrap<Op> && std::constructible_from<Op, const OperatorParameters&>;

template <Operator Op>
constexpr bool MayOverflow = IntegerElement<typename Op::Element> &&
                             (Wraps<Op> || NeverWraps<Op>() != nullptr);

template <Operator Op>
constexpr OperatorEntry EntryOf() {
  using Reducer = ReducerOf<Op>;  // has the same states
  return {.supported = true,
          .commutative = Op::kCommutative,
          .associative = AssociativeOperator<Op>,
          .has_identity = Op::kHasIdentity,
          .takes_modulus = TakesModulus<Op>,
          .takes_ddof = TakesDdof<Op>,
          .may_overflow = MayOverflow<Op>,
          .never_wraps = NeverWraps<Op>(),
          .state_bytes = sizeof(typename Op::State),
          .fields = FieldsOf<Op>(),
          .combine = CombineStates<Reducer>,
          .identity = WriteIdentity<Reducer>,
          .canonicalize = CanonicalizeStates<Reducer>,
          .is_possible = StatesArePossible<Reducer>,
          .finish = FinishState<Op>};
}

// Describes the states of operators like LargeMatrixProduct.
template <class Op>
struct LargeStates {
  using T = typename Op::Entry;
  static constexpr std::size_t kMaxEntries = std::size_t{kMaxMatrixDimension} * kMaxMatrixDimension;

  static void Combine(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* left,
                      const std::byte* right, std::byte* out) {
    T a[kMaxEntries];
    T b[kMaxEntries];
    std::memcpy(a, left, entries * sizeof(T));
    std::memcpy(b, right, entries * sizeof(T));
    Op(parameters, entries).Combine(a, b);
    std::memcpy(out, a, entries * sizeof(T));
  }
  static void Identity(const OperatorParameters& parameters, std::uint32_t entries, std::byte* out) {
    const Op op(parameters, entries);
    for (std::uint32_t i = 0; i < entries; ++i) Write(op.IdentityEntry(i), out + i * sizeof(T));
  }
  static void Canonicalize(std::uint32_t entries, std::byte* state) {
    for (std::size_t i = 0; i < entries * sizeof(T); i += sizeof(T)) {
      Write(Op::Canonical(Read<T>(state + i)), state + i);
    }
  }
  static bool IsPossible(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* state,
                         std::uint64_t, std::uint64_t) {
    T copy[kMaxEntries];
    std::memcpy(copy, state, entries * sizeof(T));
    return Op(parameters, entries).IsPossible(copy);
  }
  static Outcome Finish(const OperatorParameters&, const std::byte* state, std::uint64_t,
                        std::uint32_t entry) {
    return Op::FinishEntry(Read<T>(state + entry * sizeof(T)));
  }
};

template <class Op, int kFamily>
constexpr OperatorEntry LargeEntry() {
  using States = LargeStates<Op>;
  return {.supported = true,
          .commutative = Op::kCommutative,
          .associative = IntegerElement<typename Op::Entry>,
          .has_identity = Op::kHasIdentity,
          .whole_matrix = true,
          .large_matrix = true,
          .family = kFamily,
          .reducer = kFamily,
          .takes_modulus = TakesModulus<Op>,
          .ignores_nan = IntegerElement<typename Op::Entry>,
          .state_bytes = sizeof(typename Op::Entry),
          .combine = States::Combine,
          .identity = States::Identity,
          .canonicalize = States::Canonicalize,
          .is_possible = States::IsPossible,
          .finish = States::Finish};
}

// Finds the family that has `Reducer` as its member for T and kIgnoreNan.
template <class Reducer, class T, bool kIgnoreNan>
struct FamilyFinder {
  template <template <class, bool> class Family>
  static constexpr bool Has(ScalarFamily<Family>) {
    return std::is_same_v<Family<T, kIgnoreNan>, Reducer>;
  }
  template <class Family>
  static constexpr bool Has(Family) {
    return false;  // a family of operators over whole matrices
  }
  static constexpr int Index() {
    int index = -1;
    ForEachType(OperatorList(), [&]<class F, int kIndex>() {
      if (Has(F())) index = kIndex;
    });
    return index;
  }
};

template <int kFamily, template <class, bool> class Family, class T, bool kIgnoreNan>
constexpr OperatorEntry ScalarEntry() {
  if constexpr (kSupports<Family, T, kIgnoreNan>) {
    using Op = Family<T, kIgnoreNan>;
    OperatorEntry entry = EntryOf<Op>();
    entry.family = kFamily;
    constexpr int kSame = FamilyFinder<ReducerOf<Op>, T, kIgnoreNan>::Index();
    constexpr int kOther = FamilyFinder<ReducerOf<Op>, T, !kIgnoreNan>::Index();
    static_assert(kSame >= 0 || kOther >= 0, "the Reducer of an operator must be in the list");
    entry.reducer = kSame >= 0 ? kSame : kOther;
    entry.reducer_ignores_nan = kSame >= 0 ? kIgnoreNan : !kIgnoreNan;
    entry.ignores_nan = kIgnoreNan || IntegerElement<T>;
    return entry;
  } else if constexpr (kIgnoreNan && kSupports<Family, T, false>) {
    // Integers have no NaN to ignore. For floats this is the entry that does not ignore them, and says so.
    return ScalarEntry<kFamily, Family, T, false>();
  } else {
    return {};
  }
}

template <int kFamily, template <class, bool> class Family>
constexpr OperatorRow RowOf(ScalarFamily<Family>) {
  OperatorRow row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    row.scalar[kType][0] = ScalarEntry<kFamily, Family, T, false>();
    row.scalar[kType][1] = ScalarEntry<kFamily, Family, T, true>();
    if constexpr (kSupports<Family, T, false>) {
      row.name = Family<T, false>::kName;
      row.entrywise = !ScalarsOnly<Family<T, false>>;
    }
  });
  return row;
}

template <class Op, class T, int kFamily>
constexpr OperatorEntry WholeEntry() {
  OperatorEntry entry = EntryOf<Op>();
  entry.ignores_nan = IntegerElement<T>;
  entry.whole_matrix = true;
  entry.family = kFamily;
  entry.reducer = kFamily;
  return entry;
}

template <int kFamily, template <class> class Family>
constexpr OperatorRow RowOf(PairFamily<Family>) {
  OperatorRow row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (kSupportsPair<Family, T>) {
      row.name = Family<T>::kName;
      row.whole[kType][kPairIndex] = WholeEntry<Family<T>, T, kFamily>();
    }
  });
  return row;
}

template <int kFamily, template <class, int> class Family>
constexpr OperatorRow RowOf(MatrixFamily<Family>) {
  OperatorRow row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    ForEachDimension([&]<int kDimension>() {
      if constexpr (kSupportsMatrix<Family, T, kDimension>) {
        row.name = Family<T, kDimension>::kName;
        row.whole[kType][kDimension] = WholeEntry<Family<T, kDimension>, T, kFamily>();
        row.whole[kType][kLargeIndex] = LargeEntry<typename Family<T, kDimension>::Large, kFamily>();
      }
    });
  });
  return row;
}

template <class... Families>
constexpr auto MakeTable(TypeList<Families...> list) {
  std::array<OperatorRow, sizeof...(Families)> table{};
  ForEachType(list, [&]<class Family, int kFamily>() { table[kFamily] = RowOf<kFamily>(Family()); });
  return table;
}

}  // namespace

std::span<const OperatorRow> OperatorTable() {
  static constexpr auto kTable = MakeTable(OperatorList());
  return kTable;
}

}  // namespace warpfold::kernels
