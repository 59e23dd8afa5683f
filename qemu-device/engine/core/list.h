// SPDX-License-Identifier: GPL-2.0-or-later
// Doubly linked intrusive lists: no allocation, and an object leaves its list in O(1).
#pragma once

namespace tern {

template <class T>
class List;

// An object's link in a List<T>. The owner may be destroyed at any time: the hook leaves its list
// first.
template <class T>
class Hook {
 public:
  explicit Hook(T* owner) : owner_(owner) {}
  ~Hook() { unlink(); }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

  [[nodiscard]] bool linked() const { return next_ != nullptr; }
  void unlink() {
    if (!linked()) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    prev_ = next_ = nullptr;
  }

 private:
  friend class List<T>;
  void link_before(Hook& next) {
    prev_ = next.prev_;
    next_ = &next;
    prev_->next_ = next.prev_ = this;
  }

  Hook* prev_ = nullptr;
  Hook* next_ = nullptr;
  T* owner_;
};

template <class T>
class List {
 public:
  List() { head_.prev_ = head_.next_ = &head_; }
  ~List() {
    while (pop_front() != nullptr) {
    }
    head_.prev_ = head_.next_ = nullptr;
  }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  [[nodiscard]] bool empty() const { return head_.next_ == &head_; }
  // Null if the list is empty.
  [[nodiscard]] T* front() const { return head_.next_->owner_; }
  // The hook must not be in a list.
  void push_back(Hook<T>& hook) { hook.link_before(head_); }
  void push_front(Hook<T>& hook) { hook.link_before(*head_.next_); }
  // Removes and returns the first object; null if the list is empty.
  T* pop_front() {
    Hook<T>& first = *head_.next_;
    if (&first == &head_) return nullptr;
    first.unlink();
    return first.owner_;
  }
  // Appends all of `other` and leaves it empty; O(1).
  void take_all(List& other) {
    if (other.empty()) return;
    Hook<T>& first = *other.head_.next_;
    Hook<T>& last = *other.head_.prev_;
    other.head_.prev_ = other.head_.next_ = &other.head_;
    first.prev_ = head_.prev_;
    last.next_ = &head_;
    head_.prev_->next_ = &first;
    head_.prev_ = &last;
  }
  // Calls f for each object; f may remove that object from the list, but no other.
  template <class F>
  void for_each(F&& f) const {
    for (Hook<T>* at = head_.next_; at != &head_;) {
      Hook<T>& hook = *at;
      at = at->next_;
      f(*hook.owner_);
    }
  }

 private:
  Hook<T> head_{nullptr};  // between the last hook and the first
};

}  // namespace tern
